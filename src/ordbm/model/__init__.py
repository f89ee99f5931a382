"""What a machine is: its settings, features, parameters and links."""
