"""What runs are and what they are worth: scan, worth, collect, leaderboard (design §3, layer 4)."""
