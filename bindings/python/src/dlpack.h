// Reads a DLPack capsule: where its bytes are. The layout is that of DLPack's DLManagedTensor,
// written down here from its specification (dmlc.github.io/dlpack, version 0.8 of the structures:
// the capsule named "dltensor").
// The capsule stays unused, so that whoever drops it gives the tensor back.
// Thread: with the interpreter's lock.
#pragma once

#include <cstdint>

#include <Python.h>

#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>

namespace towpath::python {

struct DlpackView {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t device = 0;
};

/// Errors: invalid_argument (no such capsule, sizes that wrap, elements that do not lie in one
/// piece in row-major order), unsupported (a device other than the host and CUDA's).
Result<DlpackView> read_dlpack(PyObject* capsule);

}  // namespace towpath::python
