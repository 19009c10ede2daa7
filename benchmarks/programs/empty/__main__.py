"""Nothing: what a preview costs before a program does anything."""
