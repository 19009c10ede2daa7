"""What is carried to a GPU machine: which files, in parts of which size, and what is missing is said."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.gpu import pack, parts, runs, unpack
from tools.gpu.imports import missing
from tools.gpu.pack import PackFault, missing_wheels, requirements
from tools.gpu.parts import PART_BYTES, Part, PartsFault, cut, even, joined, read_manifest, write_manifest
from tools.gpu.selection import ARCHIVES, BASE, MOE, MOONCAKE, archive_of, placed

VLLM, NIXL = "vllm-0.30.0-cp38-abi3-manylinux_2_28_x86_64.whl", "nixl_cu13-1.4.1-cp312-cp312-manylinux_2_28_x86_64.whl"
CARRIED_MIB = 64
OWN_MB = 6


@pytest.mark.parametrize(
    ("wheel", "path", "archive"),
    [
        (VLLM, "vllm/v1/engine/core.py", BASE),
        (VLLM, "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", BASE),
        (VLLM, "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", None),
        (VLLM, "vllm/_moe_C_stable_libtorch.abi3.so", MOE),
        (VLLM, "vllm/third_party/deep_gemm/_C.cpython-312-x86_64-linux-gnu.so", None),
        (VLLM, "vllm/vllm-rs", None),
        (VLLM, "vllm-0.30.0.dist-info/METADATA", BASE),
        (NIXL, "nixl_cu13.libs/ucx/libuct_cuda.so.0.0.0", BASE),
        (NIXL, "nixl_cu13.libs/nixl/libplugin_OBJ.so", BASE),
        (NIXL, "nixl_cu13.libs/ucx/libucx_perftest_cuda.so.0.0.0", None),
        (NIXL, "nixl_ep_cu13/nixl_ep_cpp_torch211.cpython-312-x86_64-linux-gnu.so", None),
        ("nixl-1.4.1-py3-none-any.whl", "nixl/_api.py", BASE),
        (
            "mooncake_transfer_engine_cuda13-0.3.14-cp312-cp312-manylinux_2_28_x86_64.whl",
            "mooncake/engine.so",
            MOONCAKE,
        ),
        (
            "mooncake_transfer_engine_cuda13-0.3.14-cp312-cp312-manylinux_2_28_x86_64.whl",
            "mooncake/mooncake_client",
            None,
        ),
    ],
)
def test_a_file_goes_to_one_archive_or_stays(wheel: str, path: str, archive: str | None) -> None:
    assert archive_of(wheel, path) == archive


def test_data_of_a_wheel_goes_where_pip_puts_it() -> None:
    assert placed("x-1.data/purelib/x/a.py") == placed("x-1.data/platlib/x/a.py") == "x/a.py"
    assert placed("x/a.py") == "x/a.py"


def test_parts_are_alike_and_a_call_can_carry_each() -> None:
    assert even(118_185_724) == 59_092_862
    assert even(60 * 10**6) == PART_BYTES and even(1) == 1
    assert PART_BYTES + OWN_MB * 10**6 < CARRIED_MIB * 2**20


def test_this_project_itself_fits_beside_a_part() -> None:
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=pack.CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    size = sum(path.stat().st_size for name in files.split("\0") if (path := pack.CHECKOUT / name).is_file())
    assert size < OWN_MB * 10**6


def test_parts_come_back_whole_and_a_damaged_or_missing_one_is_named(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    made = cut("base", io.BytesIO(content), tmp_path, even(len(content), 500_000))
    write_manifest(tmp_path, made)
    assert [part.name for part in made] == ["base.00", "base.01", "base.02"]
    assert max(part.bytes for part in made) - min(part.bytes for part in made) <= 2
    assert b"".join(joined(tmp_path, "base", read_manifest(tmp_path))) == content
    (tmp_path / "base.01").write_bytes(b"x" * made[1].bytes)
    with pytest.raises(PartsFault, match=r"base\.01: found 426667 bytes of another content"):
        list(joined(tmp_path, "base", made))
    (tmp_path / "base.01").unlink()
    with pytest.raises(PartsFault, match=r"found no base\.01"):
        list(joined(tmp_path, "base", made))
    with pytest.raises(PartsFault, match="archive moe"):
        list(joined(tmp_path, "moe", made))
    with pytest.raises(PartsFault, match=r"python -m tools\.gpu\.pack"):
        read_manifest(tmp_path / "elsewhere")


def wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as file:
        for inner, content in files.items():
            file.writestr(inner, content)
    return path


def test_what_is_packed_is_unpacked_with_the_overlay_over_it(tmp_path: Path) -> None:
    site, warm_up = tmp_path / "site", "vllm/model_executor/warmup/kernel_warmup.py"
    wheels = [wheel(tmp_path, VLLM, {"vllm/a.py": "a = 1\n", warm_up: "import cutlass\n", "vllm/vllm-rs": "binary"})]
    made = pack.pack_archive(wheels, BASE, tmp_path, 1)
    write_manifest(tmp_path, made)
    assert unpack.unpack(tmp_path, site, [BASE]) == 2
    assert (site / "vllm/a.py").read_text() == "a = 1\n"
    assert not (site / "vllm/vllm-rs").exists()
    assert "Stands in" in (site / warm_up).read_text() and (site / "llguidance/hf.py").is_file()


def test_wheels_that_pip_did_not_find_are_named() -> None:
    wanted = requirements("# a comment\nvllm==0.30.0\nnixl-cu13==1.4.1\npython-json-logger==4.2.0\n")
    files = [VLLM, "nixl_cu13-1.4.0-cp312-cp312-manylinux_2_28_x86_64.whl", "python_json_logger-4.2.0-py3-none-any.whl"]
    assert missing_wheels(wanted, files) == ["nixl-cu13==1.4.1"]


def test_a_download_that_fails_says_which_and_where_to_mend_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "packages.txt"
    listed.write_text("vllm==0.30.0\nnixl==9.9.9\n")
    wheel(tmp_path, VLLM, {})
    monkeypatch.setattr(pack, "PACKAGES", listed)
    monkeypatch.setattr(pack.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    with pytest.raises(PackFault, match=r"no wheels for: nixl==9.9.9; wanted them for Python 3.12.*packages.txt"):
        pack.download(tmp_path)


def test_every_version_is_stated_once() -> None:
    lines = [line for line in pack.PACKAGES.read_text().splitlines() if line and not line.startswith("#")]
    assert len(requirements(pack.PACKAGES.read_text())) == len(lines)
    assert set(ARCHIVES) == {BASE, MOE, MOONCAKE}


def test_what_an_engine_would_miss_is_known_before(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import a\n")
    (package / "inner.py").write_text(
        "import json, torch, absent_one\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import absent_two\n"
        "try:\n    import absent_three\nexcept ImportError:\n    pass\ndef f():\n    import absent_four\na = 1\n"
    )
    assert missing(tmp_path, ("pkg", "other")) == {"absent_one": "pkg.inner", "other": "a root"}


def test_a_manifest_is_what_the_other_machine_reads(tmp_path: Path) -> None:
    write_manifest(tmp_path, [Part("base", "base.00", 1, "ab")])
    assert json.loads((tmp_path / parts.MANIFEST).read_text())[0]["sha256"] == "ab"


def test_a_tar_keeps_what_may_be_run(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("mooncake/mooncake_master")
    entry.external_attr = 0o755 << 16
    path = tmp_path / "mooncake-1-x.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(entry, "x")
    out = io.BytesIO()
    pack.write_tar([path], MOONCAKE, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        assert tar.getmembers()[0].mode == 0o755


def test_the_runs_fit_the_machine_and_the_half_hour() -> None:
    made = [Part("base", "base.00", 59, "a"), Part("base", "base.01", 59, "b"), Part("moe", "moe.00", 38, "c")]
    found = runs.runs(made)
    assert [run.name for run in found if not run.optional] == [
        "part base.00", "scenarios", "transfers", "goodput", "gate's cost",
    ]  # fmt: skip
    for run in found:
        assert len(run.command) <= runs.MOST_CHARACTERS and run.minutes < runs.MOST_MINUTES, run.name
        assert subprocess.run(["sh", "-n", "-c", run.command], check=False).returncode == 0, run.command
    assert runs.START_MINUTES + sum(run.minutes for run in found if not run.optional) <= runs.BUDGET_MINUTES
    [first, second] = [run for run in found if run.carry and not run.optional]
    assert first.carry == (".gpu/base.00", ".gpu/parts.json") and "tools.gpu.unpack" not in first.command
    assert "tools.gpu.unpack /tmp/p /tmp/site base" in second.command and "pytest tests/gpu" in second.command


def test_a_run_leaves_its_lines_and_logs_where_they_come_back(tmp_path: Path) -> None:
    script = (pack.CHECKOUT / "tools/gpu/run.sh").read_text().replace("/tmp/", f"{tmp_path}/")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/env.sh").write_text(unpack.environment(tmp_path / "site", pack.CHECKOUT))
    own = tmp_path / "run.sh"
    own.write_text(script)
    body = 'echo "$VLLM_USE_FLASHINFER_SAMPLER" > $SPLITSERVE_OUT/a.jsonl; mkdir $SPLITSERVE_OUT/logs; exit 3'
    out = tmp_path / "back"
    out.mkdir()
    done = subprocess.run(
        ["sh", own, "20", "name", "sh", "-c", body], env={"OUT": str(out), "PATH": "/usr/bin:/bin"}, check=False
    )
    assert done.returncode == 3
    assert (out / "name-a.jsonl").read_text() == "0\n" and (out / "name-logs.tgz").is_file()
