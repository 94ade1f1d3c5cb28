#include "bindings/python/src/blobs.h"

#include <memory>
#include <optional>

#include <towpath/kv/blobs/blob_store.h>
#include <towpath/sys/file.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/gil.h"

namespace towpath::python {
namespace {

struct Blobs {
  std::unique_ptr<sys::SystemFileSystem> files = std::make_unique<sys::SystemFileSystem>();
  std::optional<kv::BlobStore> store;
};

void save_blob(Blobs& self, const Name& name, const py::buffer& data, const Name& context) {
  Py_buffer view;
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> released(&view, &PyBuffer_Release);
  const ConstByteSpan bytes(static_cast<const std::byte*>(view.buf),
                            static_cast<std::size_t>(view.len));
  check(unlocked([&] { return self.store->save({name.value, context.value}, bytes); }));
}

py::bytes restore_blob(const Blobs& self, const Name& name, const Name& context) {
  const kv::BlobInfo info = unwrap(unlocked([&] { return self.store->find(name.value); }));
  auto bytes = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(info.length)));
  if (!bytes) throw py::error_already_set();
  const ByteSpan into(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())),
                      static_cast<std::size_t>(info.length));
  check(unlocked([&] { return self.store->restore({name.value, context.value}, into); }));
  return bytes;
}

py::list list_blobs(const Blobs& self) {
  py::list out;
  for (const auto& entry : unwrap(unlocked([&] { return self.store->list(); })))
    out.append(py::dict(py::arg("file") = name_to_python(entry.file),
                        py::arg("name") = name_to_python(entry.info.blob.name),
                        py::arg("context") = name_to_python(entry.info.blob.context),
                        py::arg("length") = entry.info.length,
                        py::arg("error") = exception_of(entry.status)));
  return out;
}

}  // namespace

void bind_blobs(py::module_& module) {
  py::class_<Blobs>(module, "Blobs")
      .def(py::init([](const py::object& directory) {
             auto blobs = std::make_unique<Blobs>();
             const py::object plain = py::module_::import("os").attr("fspath")(directory);
             blobs->store = unwrap(kv::BlobStore::open(*blobs->files, py::cast<Name>(plain).value));
             return blobs;
           }),
           py::arg("directory"))
      .def("save", &save_blob, py::arg("name"), py::arg("data"), py::arg("context") = Name{})
      .def("restore", &restore_blob, py::arg("name"), py::arg("context") = Name{})
      .def("verify",
           [](const Blobs& self, const Name& name) {
             check(unlocked([&] { return self.store->verify(name.value); }));
           })
      .def("remove",
           [](Blobs& self, const Name& name) {
             check(unlocked([&] { return self.store->remove(name.value); }));
           })
      .def("list", &list_blobs);
}

}  // namespace towpath::python
