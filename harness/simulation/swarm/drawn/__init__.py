"""What a seed draws: faults and changes by kind, their targets, times and intensities, and moments for aimed ones."""
