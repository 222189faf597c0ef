"""Operations on recurrent states: for each a reference in plain torch and a Triton kernel beside it.

`agentform.kernels.OP` checks shapes and dispatches: Triton on CUDA devices, the reference elsewhere. Triton launches on
the thread's current device, wherever its tensors are, so that their device is made current for a call.
"""
