"""What runs inside a sandbox. It imports nothing of the host's side; the host imports `frames` from here."""
