"""The reference cast: doctor, patient and grader by rules and the project's own knowledge, without a model."""
