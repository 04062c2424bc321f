"""The part Graders: agreement, accuracy by grader, differences, contradictions, and grading again."""
