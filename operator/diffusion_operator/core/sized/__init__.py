"""What fits the memory of a pod, before there is one.

`inspection` → the Job that reads a checkpoint's headers, `facts` → what it found and when to ask again, `budget` → the
memory of a pod, `fit` → the plan for one arm, `size` → all of it as one decision, `measured` → plan against what a pod
took.
"""
