"""From files of clicks to training, validation and test parts; and the synthetic shop."""
