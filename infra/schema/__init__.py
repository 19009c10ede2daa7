"""The stack file's sections, by subject. `infra.settings.Settings` puts them together."""
