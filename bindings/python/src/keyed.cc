#include "bindings/python/src/keyed.h"

#include <map>

#include <pybind11/stl.h>

#include <towpath/core/format.h>
#include <towpath/standard/keyed_files.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/guarded.h"

namespace towpath::python {
namespace {

using Operation = kv::KeyedStore::Operation;
using standard::KeyedFiles;

/// Memory of Python's, and what keeps it where it is.
struct Held {
  ByteSpan bytes;
  std::shared_ptr<const void> keep_alive;
};

/// Raises what the exporter raises; InvalidArgument (not in one piece, read-only).
Held held_of(const py::handle& source, bool is_written_to) {
  auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(source.ptr()));
  if (!view) throw py::error_already_set();
  const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(view.ptr());
  if (PyBuffer_IsContiguous(buffer, 'C') == 0)
    raise(error(Code::invalid_argument, "a buffer whose bytes are not in one piece",
                "give a contiguous one"));
  if (is_written_to && buffer->readonly != 0)
    raise(error(Code::invalid_argument, "a read-only buffer, to be filled",
                "give a bytearray, or a writable array"));
  return {{static_cast<std::byte*>(buffer->buf), static_cast<std::size_t>(buffer->len)},
          keep_alive(std::move(view))};
}

/// Batches under way keep their buffers, which outlive the store.
struct State {
  std::map<std::uint64_t, std::vector<Held>> held;  // by batch; with the interpreter's lock
  std::unique_ptr<KeyedFiles> files;
};

/// Work that runs nothing of Python's, so that no other thread of it runs: a close() comes before
/// it or behind it, and never leaves the store to another that still holds it.
template <typename Work>
auto at_once(const Handle<State>& state, Work&& work) {
  return work(*opened(state));
}

class KeyedBlocks {
 public:
  KeyedBlocks(const py::object& directory, std::uint64_t disk_bytes, bool direct)
      : state_(std::make_shared<State>()) {
    const py::object plain = py::module_::import("os").attr("fspath")(directory);
    const standard::KeyedFilesOptions options{
        .directory = py::cast<Name>(plain).value, .disk_bytes = disk_bytes, .direct = direct};
    state_.get()->files = unwrap(unlocked([&] { return KeyedFiles::open(options); }));
  }

  std::uint64_t submit(Operation operation, const std::vector<Name>& names,
                       const std::optional<py::sequence>& buffers) {
    (void)opened(state_);
    if (buffers && buffers->size() != names.size())
      raise(error(Code::invalid_argument,
                  cat(names.size(), " keys and ", buffers->size(), " buffers"),
                  "give a buffer for each key"));
    std::vector<Held> held;
    std::vector<kv::KeyedStore::Item> items;
    for (std::size_t i = 0; i < names.size(); ++i) {
      items.push_back({standard::key_of(names[i].value), {}});
      if (!buffers) continue;
      held.push_back(held_of(py::object((*buffers)[i]), operation == Operation::get));
      items.back().bytes = held.back().bytes;
    }
    // The entry is made before: once the store moves their bytes, nothing may fail that keeps the
    // buffers. Nobody takes it before it is in its place: they would hold the lock.
    decltype(State::held) made;
    made.emplace(0, std::move(held));
    auto entry = made.extract(made.begin());
    return at_once(state_, [&](State& state) {
      const auto id = state.files->store().submit(operation, std::move(items));
      entry.key() = id;
      state.held.insert(std::move(entry));
      return id;
    });
  }

  py::list take_ended() {
    std::vector<decltype(State::held)::node_type> freed;
    const auto ended = at_once(state_, [&](State& state) {
      auto some = state.files->store().take_ended();
      for (const auto& one : some) freed.push_back(state.held.extract(one.id));
      return some;
    });
    freed.clear();
    drop_put_aside();  // the buffers are the caller's now, not when something is called next
    py::list out;
    for (const auto& [id, statuses] : ended) {
      py::list answers;
      for (const Status& status : statuses) answers.append(exception_of(status));
      out.append(py::make_tuple(id, answers));
    }
    return out;
  }

  py::dict figures() const {
    const kv::KeyedFigures figures = opened(state_)->files->store().figures();
    return py::dict(py::arg("put") = figures.put, py::arg("already") = figures.already,
                    py::arg("loaded") = figures.loaded, py::arg("missing") = figures.missing,
                    py::arg("not_proven") = figures.not_proven,
                    py::arg("put_again") = figures.put_again,
                    py::arg("last_failure") = exception_of(figures.last_failure));
  }

  KeyedFiles& files() const { return *opened(state_)->files; }
  /// What is under way ends first: its buffers are its caller's again.
  void close() { state_.reset(); }

 private:
  Handle<State> state_;
};

}  // namespace

void bind_keyed(py::module_& module) {
  using Names = std::vector<Name>;
  using Buffers = std::optional<py::sequence>;
  py::class_<KeyedBlocks>(module, "KeyedBlocks")
      .def(py::init<const py::object&, std::uint64_t, bool>(), py::arg("directory"),
           py::arg("disk_bytes") = 16 * kGiB, py::arg("direct") = false)
      .def(
          "submit_put",
          [](KeyedBlocks& self, const Names& keys, const py::sequence& buffers) {
            return self.submit(Operation::put, keys, Buffers(buffers));
          },
          py::arg("keys"), py::arg("buffers"))
      .def(
          "submit_get",
          [](KeyedBlocks& self, const Names& keys, const py::sequence& buffers) {
            return self.submit(Operation::get, keys, Buffers(buffers));
          },
          py::arg("keys"), py::arg("buffers"))
      .def(
          "submit_find",
          [](KeyedBlocks& self, const Names& keys) {
            return self.submit(Operation::find, keys, Buffers());
          },
          py::arg("keys"))
      .def(
          "submit_remove",
          [](KeyedBlocks& self, const Names& keys) {
            return self.submit(Operation::remove, keys, Buffers());
          },
          py::arg("keys"))
      .def("take_ended", &KeyedBlocks::take_ended)
      .def("fileno", [](const KeyedBlocks& self) { return self.files().store().fd(); })
      .def("figures", &KeyedBlocks::figures)
      .def("close", &KeyedBlocks::close)
      .def_property_readonly("direct_refusal",
                             [](const KeyedBlocks& self) { return self.files().direct_refusal(); })
      .def_property_readonly("blocks_at_opening", [](const KeyedBlocks& self) {
        return self.files().blocks_at_opening();
      });
}

}  // namespace towpath::python
