"""The cases at hand: data sets, each case with its faults and profile, suitability, import, delete."""
