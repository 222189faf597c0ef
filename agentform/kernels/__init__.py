"""Operations on recurrent states: for each a reference in plain torch and a Triton kernel beside it.

`agentform.kernels.OP` checks shapes and dispatches: Triton on CUDA devices, the reference elsewhere.
"""
