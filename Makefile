# `make up`: real vLLM prefill and decode tiers on a one-node Kubernetes, proved by their KV transfer.
# `make test`: every test, from nothing.
PYTHON := .venv/bin/python
# A file's tests share what they start, so they stay in one process. The cluster has one user at a time.
ON_CORES := -n auto --maxprocesses=4 --dist loadfile
.DEFAULT_GOAL := help
# Where an environment forbids byte code beside the sources, each command would compile the SDKs anew.
ifdef PYTHONDONTWRITEBYTECODE
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/.local/byte-code
endif

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1|/' | column -t -s '|'

.PHONY: setup machine
setup:
	@tools/bootstrap.sh setup
machine:
	@tools/bootstrap.sh machine

.PHONY: up start groups down clean status env logs
up: machine ## Everything: build, start the cluster, deploy, measure, answer
	@$(PYTHON) -m tools.local up
start: machine ## Build and start the cluster, deploy nothing
	@$(PYTHON) -m tools.local start
groups: machine ## Add what engines over several nodes need to the running cluster
	@$(PYTHON) -m tools.local groups
down: setup ## Stop the cluster; its data stays
	@$(PYTHON) -m tools.local down
clean: setup ## Stop the cluster and remove everything outside the cache
	@$(PYTHON) -m tools.local clean
status: setup ## One line of JSON: endpoint, model, live release, verdict, KV transfer time
	@eval "$$($(PYTHON) -m tools.local env)" && $(PYTHON) -m infra.cli status
env: setup ## Print what makes plain `pulumi` and `kubectl` work: eval "$(make -s env)"
	@$(PYTHON) -m tools.local env
logs: setup ## Print a node component's log: make logs COMPONENT=kubelet
	@$(PYTHON) -m tools.local logs $(COMPONENT)

.PHONY: up-aws-sim
up-aws-sim: machine ## The dev stack on AWS's stand-in: up, unchanged, other nodes, destroyed
	@$(PYTHON) -m tools.local start && $(PYTHON) -m tools.aws_sim

.PHONY: demo-slow-link demo-silent demo-never-ready demo-cannot-measure
demo-slow-link: up ## A candidate behind a slow link is measured and taken back
	@$(PYTHON) -m tools.demo slow-link $(DEMO_FLAGS)
demo-silent: up ## A decoder without its connector: 200 OK, no KV moved
	@$(PYTHON) -m tools.demo silent $(DEMO_FLAGS)
demo-never-ready: up ## A candidate that never gets ready
	@$(PYTHON) -m tools.demo never-ready $(DEMO_FLAGS)
demo-cannot-measure: up ## A candidate that can't be measured: inconclusive
	@$(PYTHON) -m tools.demo cannot-measure $(DEMO_FLAGS)

.PHONY: docs pages
docs: setup ## The documentation as a site, in .local/site; a warning fails it
	@VIRTUAL_ENV=$(CURDIR)/.venv UV_LINK_MODE=copy .venv/bin/uv sync --quiet --frozen --inexact --group docs
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --clean && echo "site: .local/site/index.html"
pages: setup ## Write the pages that are made from code, and the picture
	@$(PYTHON) -m tools.pages && $(PYTHON) -m tools.picture

.PHONY: workflows
workflows: ## Check the workflow files, by actionlint (needs Go)
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: check test test-unit test-engine test-cluster test-nightly
check: setup ## Format, lint and types
	@$(PYTHON) -m ruff format --check . && $(PYTHON) -m ruff check . && $(PYTHON) -m pyright
test-unit: setup ## Seconds, no engine, no cluster
	@$(PYTHON) -m pytest tests/unit $(ON_CORES)
test-engine: machine ## The real Pulumi engine
	@$(PYTHON) -m tools.local build && $(PYTHON) -m pytest tests/engine $(ON_CORES)
test-cluster: machine ## Real Kubernetes and real vLLM
	@$(PYTHON) -m tools.local start && $(PYTHON) -m tools.local groups && $(PYTHON) -m pytest tests/cluster
test-nightly: machine ## Each alert by its real fault, on real Kubernetes and real vLLM
	@$(PYTHON) -m tools.local start && $(PYTHON) -m pytest tests/cluster -m nightly
test: machine check ## All of them but the nightly ones
	@$(PYTHON) -m pytest tests/unit $(ON_CORES)
	@$(PYTHON) -m tools.local start && $(PYTHON) -m tools.local groups
	@$(PYTHON) -m pytest tests/engine $(ON_CORES)
	@$(PYTHON) -m pytest tests/cluster
