"""Rules that a plan must hold to, by subject; `infra.rules.all_rules` lists them."""
