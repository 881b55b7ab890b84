"""Whether an app means something: names, types, and what each clause of it may say."""
