"""The CUDA plug-ins of polyconv: `import polyconv` loads what is in backends/ beside this file."""
# SPDX-License-Identifier: Apache-2.0
