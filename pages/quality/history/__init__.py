"""How well histories are taken: what was uncovered, how the dialogue went, how the patient played, case by case."""
