"""What runs need and a site keeps: images, CLIs, models and data, credentials (design §3)."""
