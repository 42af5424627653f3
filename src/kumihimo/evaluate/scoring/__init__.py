"""an answer, its evidence, the reference -> the catalogue of measures: formula, needs, undefined cases."""
