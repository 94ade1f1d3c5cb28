// Memory out of Python: what may be registered, and what keeps it alive meanwhile.
//
// Whatever speaks the buffer protocol (numpy arrays, bytearray, mmap, shared_memory), DLPack
// (cupy, jax), or looks like a torch tensor; and two kinds of memory of our own. Nothing is
// imported for it, and numpy and torch need not be installed.
// A registration holds a reference to the object, and so does the agent while bytes may still move.
// Where the bytes lie is fixed meanwhile, but for a torch storage that its user resizes.
// Thread: with the interpreter's lock.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include <towpath/memory/disk_region.h>
#include <towpath/memory/region.h>
#include <towpath/memory/registrar.h>
#include <towpath/memory/shared_region.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/gil.h"

namespace towpath::python {

/// Bytes that somebody else owns.
class HeldRegion final : public memory::Region {
 public:
  HeldRegion(RegionDescriptor self, std::shared_ptr<const void> keep_alive)
      : self_(std::move(self)), keep_alive_(std::move(keep_alive)) {}
  RegionDescriptor descriptor() const override { return self_; }

 private:
  RegionDescriptor self_;
  std::shared_ptr<const void> keep_alive_;
};

/// `kind` overrides what the object says of itself; empty: believe it.
/// Raises TypeError (no memory), InvalidArgument (empty, read-only, not in one piece).
memory::SharedRegion to_region(const py::object& object, const std::string& kind);
/// What to_region() would make of it, and of no bytes too. Raises the same.
RegionDescriptor describe_memory(const py::object& object);

/// `owner`, or, of a buffer or a tensor, what keeps its bytes where they are besides: a view,
/// another tensor of the same memory.
py::object keeper_of(const py::object& owner);

/// towpath.SharedMemory: a memfd that other processes of the host may map; has a buffer itself.
struct SharedMemory {
  std::shared_ptr<memory::SharedMemoryRegion> region;
};

/// towpath.File. A forked child, which has one too, does not remove it from its parent.
struct File {
  Handle<const memory::DiskRegion> region;
};

class PyRegistration {
 public:
  PyRegistration(memory::Registration registration, py::object memory)
      : region_(registration.descriptor()),
        shared_(std::make_shared<Guarded>(std::move(registration))),
        memory_(std::move(memory)) {}

  const RegionDescriptor& region() const noexcept { return region_; }
  /// The object that was registered; None for bare addresses.
  const py::object& memory() const noexcept { return memory_; }
  bool is_registered() const;
  std::vector<std::string> backends() const;
  void release();

 private:
  /// A Registration is for one thread at a time; Python's are many.
  struct Guarded {
    explicit Guarded(memory::Registration value) : registration(std::move(value)) {}
    std::mutex mutex;
    memory::Registration registration;
  };

  RegionDescriptor region_;
  Handle<Guarded> shared_;
  py::object memory_;
};

void bind_memory(py::module_& module);

}  // namespace towpath::python
