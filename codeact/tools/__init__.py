"""The user's tools: what they are made from, how code in the sandbox sees them, and how their calls run on the host."""
