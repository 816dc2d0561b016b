"""One module per benchmark; medians and ratios, reported beside their *must* and *stretch* bars."""
