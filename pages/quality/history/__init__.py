"""History taking: information uncovered, course of the dialogue, the patient’s quality, and single cases."""
