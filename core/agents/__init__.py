"""Roles that speak: doctor, patient, grader, summariser; each as a language model, by rules, or as a human."""
