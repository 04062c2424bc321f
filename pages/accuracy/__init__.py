"""Accuracy of models by format, question type, specialty and data set, with intervals and the cases behind each bar."""
