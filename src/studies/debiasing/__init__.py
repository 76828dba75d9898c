"""Compare jobs with and without debiasing over the studies."""
