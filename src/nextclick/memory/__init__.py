"""The nonparametric memory of (representation, next item) pairs."""
