"""The package's version: that of the project, which its schema and its SDKs carry."""

from __future__ import annotations

from importlib.metadata import version

from infra.naming import PROJECT

VERSION = version(PROJECT)
