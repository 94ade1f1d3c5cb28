#include "bindings/python/src/memory.h"

#include <pybind11/stl.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>

#include "bindings/python/src/descriptors.h"
#include "bindings/python/src/dlpack.h"

namespace towpath::python {
namespace {

/// What an object says of its bytes.
struct Facts {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t device = 0;
  py::object keep;  ///< the object, or a view that also keeps it from moving its bytes
};

Status not_in_one_piece() {
  return error(Code::invalid_argument, "the elements do not lie in one piece without gaps",
               "register the array that it is a view of, or a contiguous copy");
}

bool looks_like_tensor(const py::object& object) {
  return py::hasattr(object, "data_ptr") && py::hasattr(object, "element_size") &&
         py::hasattr(object, "numel") && py::hasattr(object, "is_contiguous");
}

/// Another tensor of the same memory, where there can be one: this one may get other memory
/// (`tensor.data = ...`, `tensor.set_(...)`), and would then keep nothing. A storage that is
/// resized frees its bytes under all of its tensors: what torch has against that, as numpy() does
/// it, lasts for as long as the storage, which then could not be resized after it was taken back
/// either.
py::object keeper_of_tensor(const py::object& tensor) {
  return py::hasattr(tensor, "detach") ? py::object(tensor.attr("detach")()) : tensor;
}

Facts facts_of_tensor(const py::object& tensor) {
  if (!py::cast<bool>(tensor.attr("is_contiguous")())) raise(not_in_one_piece());
  const auto device = py::cast<std::string>(tensor.attr("device").attr("type"));
  Facts facts{.keep = keeper_of_tensor(tensor)};
  if (device == "cuda") {
    facts.kind = MemoryKind::device;
    facts.device = to_u64(py::object(tensor.attr("get_device")()).ptr());
  } else if (device != "cpu") {
    raise(error(Code::unsupported, cat("a tensor on '", device, "'"),
                "move it to the cpu or to cuda"));
  }
  facts.address = to_u64(py::object(tensor.attr("data_ptr")()).ptr());
  const auto bytes = checked_multiply(to_u64(py::object(tensor.attr("numel")()).ptr()),
                                      to_u64(py::object(tensor.attr("element_size")()).ptr()));
  facts.length = bytes.value_or(0);
  return facts;
}

/// Whether there are references among the items ("O"). Names of fields stand between colons.
bool holds_references(const char* format) {
  bool in_name = false;
  for (; format != nullptr && *format != 0; ++format) {
    if (*format == ':') in_name = !in_name;
    if (*format == 'O' && !in_name) return true;
  }
  return false;
}

Facts facts_of_buffer(const py::object& object) {
  const auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(object.ptr()));
  if (!view) throw py::error_already_set();
  const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(view.ptr());
  if (buffer->readonly != 0)
    raise(error(Code::invalid_argument, "the bytes are read-only, and a peer could write them",
                "register a writable copy, as bytearray(...) or array.copy()"));
  if (PyBuffer_IsContiguous(buffer, 'A') == 0) raise(not_in_one_piece());
  if (holds_references(buffer->format))
    raise(error(Code::invalid_argument,
                "the items are Python's objects, and a peer's bytes are none",
                "register an array of numbers"));
  return {.address = address_of(buffer->buf),
          .length = static_cast<std::uint64_t>(buffer->len),
          .keep = view};
}

Facts facts_of_dlpack(const py::object& object) {
  py::object capsule = object.attr("__dlpack__")();
  const DlpackView view = unwrap(read_dlpack(capsule.ptr()));
  return {.kind = view.kind,
          .address = view.address,
          .length = view.size_bytes,
          .device = view.device,
          .keep = std::move(capsule)};  // whose own destructor gives the memory back
}

Facts facts_of(const py::object& object) {
  if (looks_like_tensor(object)) return facts_of_tensor(object);
  if (PyObject_CheckBuffer(object.ptr()) != 0) return facts_of_buffer(object);
  if (py::hasattr(object, "__dlpack__")) return facts_of_dlpack(object);
  throw py::type_error(
      "no memory that is known: expected a towpath.SharedMemory or towpath.File, an object with a "
      "buffer (numpy array, bytearray, mmap), a torch tensor, or an object with __dlpack__");
}

RegionDescriptor described(const Facts& facts) {
  return {.kind = facts.kind,
          .address = facts.address,
          .length = facts.length,
          .device_id = facts.device};
}

std::unique_ptr<SharedMemory> make_shared_memory(std::uint64_t size_bytes, Name name) {
  return std::make_unique<SharedMemory>(SharedMemory{unwrap(unlocked([&] {
    return memory::SharedMemoryRegion::create({.name = name.value, .size_bytes = size_bytes});
  }))});
}

py::buffer_info buffer_of(const SharedMemory& memory) {
  const ByteSpan bytes = memory.region->bytes();
  return {bytes.data(), 1, "B", static_cast<py::ssize_t>(bytes.size())};
}

memory::DirectIo to_direct(const std::string& word) {
  if (word == "off") return memory::DirectIo::off;
  if (word == "wanted") return memory::DirectIo::wanted;
  if (word == "required") return memory::DirectIo::required;
  raise(error(Code::invalid_argument, cat("direct='", word, "'"),
              "use 'off', 'wanted' or 'required'"));
}

memory::FileLife to_life(const std::string& word) {
  if (word == "kept") return memory::FileLife::kept;
  if (word == "removed_on_close") return memory::FileLife::removed_on_close;
  if (word == "nameless") return memory::FileLife::nameless;
  raise(error(Code::invalid_argument, cat("life='", word, "'"),
              "use 'kept', 'removed_on_close' or 'nameless'"));
}

/// A region, and the file system that it needs as long.
struct FileAndSystem {
  sys::SystemFileSystem files;
  std::shared_ptr<memory::DiskRegion> region;
};

std::unique_ptr<File> open_file(const py::object& path, std::uint64_t size_bytes,
                                const std::string& direct, const std::string& life) {
  const py::object plain = py::module_::import("os").attr("fspath")(path);
  auto both = std::make_shared<FileAndSystem>();
  const memory::DiskOptions options{.path = py::cast<Name>(plain).value,
                                    .size_bytes = size_bytes,
                                    .direct = to_direct(direct),
                                    .life = to_life(life)};
  both->region = unwrap(unlocked([&] { return memory::DiskRegion::open(options, both->files); }));
  const auto* const region = both->region.get();
  return std::make_unique<File>(
      File{Handle(std::shared_ptr<const memory::DiskRegion>(std::move(both), region))});
}

/// Equal extents of a registration, as one entry of a list.
std::unique_ptr<SharedList> blocks(const PyRegistration& self, std::uint64_t length,
                                   const py::object& count, std::uint64_t stride,
                                   std::uint64_t offset) {
  const RegionDescriptor& region = self.region();
  if (stride == 0) stride = length;
  const bool fits_one = range_fits(offset, length, region.length);
  if (length == 0 || !fits_one)
    raise(error(Code::out_of_range,
                cat("a block of ", length, " bytes at ", offset, " of a region of ", region.length),
                "choose a length above 0, within the region"));
  const std::uint64_t most = (region.length - offset - length) / stride + 1;
  const std::uint64_t wanted = count.is_none() ? most : to_u64(count.ptr());
  if (wanted > most)
    raise(error(Code::out_of_range,
                cat(wanted, " blocks of ", length, " bytes, ", stride, " apart from ", offset,
                    ", in a region of ", region.length),
                cat("at most ", most, " fit")));
  DescriptorList list(region.kind);
  if (wanted > 0)
    check(list.add(StridedDescriptor{.address = region.address + offset,
                                     .length = length,
                                     .stride = stride,
                                     .count = wanted,
                                     .device_id = region.device_id}));
  return std::make_unique<SharedList>(std::move(list));
}

void bind_registration(py::module_& module) {
  py::class_<PyRegistration>(module, "Registration",
                             "Memory that an agent knows; released on exit of a `with` block.")
      .def_property_readonly(
          "kind",
          [](const PyRegistration& self) { return std::string(name_of(self.region().kind)); })
      .def_property_readonly("address",
                             [](const PyRegistration& self) { return self.region().address; })
      .def_property_readonly("size_bytes",
                             [](const PyRegistration& self) { return self.region().length; })
      .def_property_readonly("device",
                             [](const PyRegistration& self) { return self.region().device_id; })
      .def_property_readonly("memory", &PyRegistration::memory)
      .def_property_readonly("registered", &PyRegistration::is_registered)
      .def_property_readonly("backends", &PyRegistration::backends)
      .def("blocks", &blocks, "Equal blocks of it, as a DescriptorList.", py::arg("length"),
           py::arg("count") = py::none(), py::kw_only(), py::arg("stride") = 0,
           py::arg("offset") = 0)
      .def("release", &PyRegistration::release, "Deregisters; again is harmless.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyRegistration& self, const py::args&) { self.release(); })
      .def("__repr__", [](const PyRegistration& self) {
        return cat("<towpath.Registration ", to_string(self.region()), ">");
      });
}

}  // namespace

memory::SharedRegion to_region(const py::object& object, const std::string& kind) {
  if (py::isinstance<SharedMemory>(object)) return py::cast<const SharedMemory&>(object).region;
  if (py::isinstance<File>(object)) return py::cast<const File&>(object).region.get();
  Facts facts = facts_of(object);
  RegionDescriptor self = described(facts);
  if (!kind.empty()) self.kind = to_kind(kind);
  if (self.length == 0)
    raise(error(Code::invalid_argument, "no bytes to register", "register what is not empty"));
  return std::make_shared<HeldRegion>(std::move(self), keep_alive(std::move(facts.keep)));
}

RegionDescriptor describe_memory(const py::object& object) {
  if (py::isinstance<SharedMemory>(object) || py::isinstance<File>(object))
    return to_region(object, {})->descriptor();
  return described(facts_of(object));
}

py::object keeper_of(const py::object& owner) {
  if (looks_like_tensor(owner)) return keeper_of_tensor(owner);
  if (PyObject_CheckBuffer(owner.ptr()) == 0) return owner;
  auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(owner.ptr()));
  if (view) return view;
  PyErr_Clear();  // of numbers that the protocol has no letter for
  return owner;
}

bool PyRegistration::is_registered() const {
  return unlocked([shared = shared_.get()] {
    const std::lock_guard lock(shared->mutex);
    return shared->registration.is_registered();
  });
}

std::vector<std::string> PyRegistration::backends() const {
  return unlocked([shared = shared_.get()] {
    const std::lock_guard lock(shared->mutex);
    return shared->registration.backends();
  });
}

void PyRegistration::release() {
  if (shared_.is_inherited()) return;
  check(unlocked([shared = shared_.get()] {
    const std::lock_guard lock(shared->mutex);
    return shared->registration.release();
  }));
  memory_ = py::none();
}

void bind_memory(py::module_& module) {
  py::class_<SharedMemory>(module, "SharedMemory", py::buffer_protocol(),
                           "Zeroed host memory that other processes of this host can map.")
      .def(py::init(&make_shared_memory), py::arg("size_bytes"), py::arg("name") = "towpath")
      .def_buffer(&buffer_of)
      .def("__len__", [](const SharedMemory& self) { return self.region->size(); });
  py::class_<File>(module, "File", "A file of a fixed size, as memory.")
      .def(py::init(&open_file), py::arg("path"), py::arg("size_bytes"), py::kw_only(),
           py::arg("direct") = "wanted", py::arg("life") = "kept")
      .def_property_readonly("path",
                             [](const File& self) { return Name{self.region.get()->path()}; })
      .def_property_readonly("size_bytes",
                             [](const File& self) { return self.region.get()->size(); })
      .def_property_readonly("direct", [](const File& self) { return self.region.get()->direct(); })
      .def_property_readonly("direct_refusal",
                             [](const File& self) { return self.region.get()->direct_refusal(); });
  bind_registration(module);
}

}  // namespace towpath::python
