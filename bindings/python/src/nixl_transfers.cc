#include <optional>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include <towpath/compat/nixl/backends.h>
#include <towpath/compat/nixl/release.h>
#include <towpath/core/format.h>

#include "bindings/python/src/nixl_agent.h"
#include "bindings/python/src/nixl_handles.h"
#include "bindings/python/src/nixl_lists.h"
#include "bindings/python/src/tables.h"

namespace towpath::python {
namespace {

using agent::Agent;

py::module_ names() { return py::module_::import("towpath.nixl._status"); }

TransferOp to_op(py::handle number) {
  const std::uint64_t op = to_u64(number.ptr());
  if (op > 1) throw py::value_error(cat(op, " is not a valid nixl_xfer_op_t"));
  return op == 0 ? TransferOp::read : TransferOp::write;
}

/// The handles of backends that are asked for. Null: any will do.
py::object backends_of(const Given& given, std::size_t backends) {
  return given.has(backends) ? py::object(py::tuple(given.object(backends))) : py::object();
}

/// Where no backend can move the bytes NIXL finds none.
Result<agent::Transfer> or_not_found(Result<agent::Transfer> made) {
  const Status why = made.status();
  if (why.code() != Code::unsupported) return made;
  return error(Code::not_found, std::string(why.message()), std::string(why.hint()));
}

/// For quiet, which a peer that answers lets come in a moment: an engine's thread waits.
constexpr Duration kReleaseTimeout = std::chrono::seconds(1);

constexpr std::uint64_t kViewBit = std::uint64_t{1} << 63U;  // of no prepared list
constexpr std::string_view kNobody = "NULL_AGENT";           // a hole of a remote list

std::size_t count_of(py::handle indices) {
  const Py_ssize_t count = PyObject_Size(indices.ptr());
  if (count < 0) throw py::error_already_set();
  return static_cast<std::size_t>(count);
}

}  // namespace

void no_such(const char* what, std::uint64_t handle) {
  raise(error(Code::invalid_argument, cat("no ", what, " has the handle ", handle),
              "use one that was given, and not released"));
}

NixlAgent::NixlAgent(py::object agent)
    : owner_(std::move(agent)),
      agent_(py::cast<PyAgent&>(owner_)),
      success_(names().attr("nixl_status_t").attr("NIXL_SUCCESS")),
      in_progress_(names().attr("nixl_status_t").attr("NIXL_IN_PROG")) {}

// ---- prepared lists

// Three ways to say it: a list for either side, a list for the own side, and a table of strided
// descriptors, which has no memory type of its own.
constexpr Signature kPrepare{"prepXferDlist", {"agent_name", "descs", "backend"}, 2};
constexpr Signature kPrepareOwn{"prepXferDlist", {"descs", "backend"}, 1};
constexpr Signature kPrepareTable{
    "prepXferDlist", {"agent_name", "mem_type", "descs", "backend"}, 3};
py::object NixlAgent::prepare(const Call& call) {
  if (call.count > 1 ? PyLong_Check(call.arguments[1]) : call.has_name("mem_type")) {
    const Given given(kPrepareTable, call);
    const MemoryKind kind = kind_of_segment(given[1]);
    return add(py::cast<Name>(given[0]), Side(strided_descriptors(kind, given[2])),
               backends_of(given, 3));
  }
  if (call.count > 0 && as_list<XferList>(call.arguments[0]) != nullptr) {
    const Given given(kPrepareOwn, call);
    return add(Name{}, Side(given.object(0)), backends_of(given, 1));
  }
  const Given given(kPrepare, call);
  return add(py::cast<Name>(given[0]), Side(given.object(1)), backends_of(given, 2));
}

py::object NixlAgent::add(const Name& peer, const Side& side, py::object backends) {
  agent::PreparedList list = agent_.ask([&](Agent& agent) {
    return peer.value.empty() ? side.prepare(agent) : side.prepare(agent, peer);
  });
  return py::int_(lists_.add({PyPrepared(std::move(list)), std::move(backends)}));
}

constexpr Signature kReleaseList{"releasedDlistH", {"handle"}, 1};
py::object NixlAgent::release_list(const Given& given) {
  if (auto taken = lists_.take(handle_number(given[0]))) taken->list.release();
  return success_;
}

NixlAgent::Part NixlAgent::part(py::handle handle, py::handle indices) const {
  const std::uint64_t number = handle_number(handle);
  Indices wanted(indices);
  if (const List* const found = lists_.find(number))
    return {found->list.get(), std::move(wanted), found->backends};
  const auto* const view = (number & kViewBit) == 0 ? nullptr : views_.find(number & ~kViewBit);
  if (view == nullptr) no_such("prepared list", number);
  nixl::MemoryView::Choice chosen = unwrap((*view)->choose(wanted.numbers((*view)->size())));
  return {std::move(chosen.list), Indices(std::move(chosen.indices)), {}};
}

// ---- memory views

constexpr Signature kPrepareView{"prepMemView", {"dlist", "backends"}, 1};
py::object NixlAgent::prepare_view(const Given& given) {
  nixl::MemoryView view = [&] {
    if (const XferList* const own = as_list<XferList>(given[0])) {
      const auto items = own->items.get();
      return agent_.ask([&](Agent& agent) {
        return nixl::MemoryView::of_own(agent, {own->kind, *items});
      });
    }
    if (!py::isinstance<RemoteList>(given[0]))
      throw py::type_error("a memory view is made of a nixlXferDList or a nixlRemoteDList");
    const auto& list = *given[0].cast<const RemoteList*>();
    const auto items = list.items.get();
    std::vector<nixl::RemoteElement> elements;
    elements.reserve(items->size());
    for (const RemoteItem& item : *items)
      elements.push_back({item.where, item.agent, item.agent == kNobody});
    return agent_.ask(
        [&](Agent& agent) { return nixl::MemoryView::of_peers(agent, list.kind, elements); });
  }();
  return py::int_(views_.add(std::make_shared<const nixl::MemoryView>(std::move(view))) | kViewBit);
}

constexpr Signature kReleaseView{"releaseMemView", {"mvh"}, 1};
py::object NixlAgent::release_view(const Given& given) {
  const std::uint64_t number = handle_number(given[0]);
  if ((number & kViewBit) == 0 || !views_.take(number & ~kViewBit)) no_such("memory view", number);
  return py::none();
}

// ---- making transfers

agent::TransferOptions NixlAgent::options_of(const Given& given, std::size_t message,
                                             const py::object& backends) const {
  agent::TransferOptions options;
  if (given.has(message)) options.notification = py::cast<Blob>(given[message]).value;
  if (backends) options.backends = types_of(backends);
  return options;
}

py::object NixlAgent::add(agent::Transfer made, py::object backends) {
  return py::int_(requests_.add({PyTransfer(std::move(made)), std::move(backends)}));
}

constexpr Signature kMake{"makeXferReq",
                          {"operation", "local_side", "local_indices", "remote_side",
                           "remote_indices", "notif_msg", "backend", "skip_desc_merg"},
                          5};
py::object NixlAgent::make(const Given& given) {
  const TransferOp op = to_op(given[0]);
  const std::size_t here = count_of(given[2]);
  const std::size_t there = count_of(given[4]);
  if (here == 0 || here != there)
    raise(error(Code::invalid_argument, cat(here, " local and ", there, " remote indices"),
                "give as many of each, and at least one"));
  const Part local = part(given[1], given[2]);
  const Part remote = part(given[3], given[4]);
  // What the request asks for counts; else what the local side was prepared for, else the remote.
  py::object backends = backends_of(given, 6);
  if (!backends) backends = local.backends ? local.backends : remote.backends;
  agent::TransferOptions options = options_of(given, 5, backends);
  options.local = local.indices.selection();
  options.remote = remote.indices.selection();
  options.merge = !given.has(7);
  return add(agent_.ask([&](Agent& agent) {
    return or_not_found(agent.make_transfer(op, *local.list, *remote.list, options));
  }),
             std::move(backends));
}

constexpr Signature kCreate{
    "createXferReq",
    {"operation", "local_descs", "remote_descs", "remote_agent", "notif_msg", "backend"},
    4};
py::object NixlAgent::create(const Given& given) {
  const TransferOp op = to_op(given[0]);
  const Side local(given.object(1));
  const Side remote(given.object(2));
  const auto peer = py::cast<Name>(given[3]);
  py::object backends = backends_of(given, 5);
  const agent::TransferOptions options = options_of(given, 4, backends);
  return add(agent_.ask([&](Agent& agent) {
    return or_not_found(create_transfer(agent, op, {local, remote, peer}, options));
  }),
             std::move(backends));
}

// ---- what becomes of them

std::shared_ptr<agent::Transfer> NixlAgent::transfer(py::handle handle) const {
  const std::uint64_t number = handle_number(handle);
  const Request* const found = requests_.find(number);
  if (found == nullptr) no_such("transfer", number);
  return found->transfer.get();
}

constexpr Signature kPost{"postXferReq", {"reqh", "notif_msg"}, 1};
py::object NixlAgent::post(const Given& given) {
  agent_.check_open();
  Blob message;
  if (given.has(1)) message = py::cast<Blob>(given[1]);
  const auto kept = transfer(given[0]);
  return state(post_and_look(agent_, *kept, message));
}

constexpr Signature kStatus{"getXferStatus", {"handle"}, 1};
py::object NixlAgent::status(const Given& given) {
  agent_.check_open();
  const auto kept = transfer(given[0]);
  const std::optional<bool> done = look(agent_, *kept);
  if (done) return state(*done);
  PyErr_SetString(names().attr("nixlNotPostedError").ptr(),
                  "NIXL_ERR_NOT_POSTED: post the transfer first");
  throw py::error_already_set();
}

constexpr Signature kRelease{"releaseXferReq", {"handle"}, 1};
py::object NixlAgent::release(const Given& given) {
  const Request* const found = requests_.find(handle_number(given[0]));
  if (found != nullptr) {
    const auto transfer = found->transfer.get();  // another thread may release it meanwhile
    const Status ended = unlocked([&] { return nixl::end_transfer(*transfer, kReleaseTimeout); });
    if (!ended.ok()) raise(ended);
  }
  return drop(given);
}

constexpr Signature kDrop{"dropXferReq", {"handle"}, 1};
py::object NixlAgent::drop(const Given& given) {
  if (auto taken = requests_.take(handle_number(given[0]))) taken->transfer.release();
  return success_;
}

constexpr Signature kTransferOf{"transfer_of", {"handle"}, 1};
py::object NixlAgent::transfer_of(const Given& given) {
  return py::cast(std::make_unique<PyTransfer>(transfer(given[0])));
}

constexpr Signature kAskedOf{"asked_of", {"handle"}, 1};
py::object NixlAgent::asked_of(const Given& given) {
  const Request* const found = requests_.find(handle_number(given[0]));
  return found != nullptr && found->backends ? found->backends : py::tuple();
}

// ---- notifications

void NixlAgent::check_notifications(const Given& given, std::size_t backends) const {
  if (!given.has(backends)) return;
  const std::vector<std::string> types = types_of(given.object(backends));
  agent_.report([&](Agent& agent) { return nixl::check_notifications(agent, types); });
}

constexpr Signature kNotifications{"getNotifs", {"notif_map", "backends"}, 0};
py::object NixlAgent::notifications(const Given& given) {
  check_notifications(given, 1);
  // Who asks helps, as in post().
  const auto come = agent_.call([](Agent& agent) {
    agent.progress();
    return agent.take_notifications();
  });
  py::dict merged;
  if (given.has(0)) {
    for (const auto& [sender, messages] : py::dict(given.object(0)))
      merged[sender] = py::list(py::reinterpret_borrow<py::object>(messages)).attr("copy")();
  }
  for (const agent::Notification& one : come) {
    const py::str sender = name_to_python(one.from.name);
    if (!merged.contains(sender)) merged[sender] = py::list();
    merged[sender].cast<py::list>().append(to_python(one.message));
  }
  return merged;
}

constexpr Signature kNotify{"genNotif", {"remote_agent", "msg", "backends"}, 2};
py::object NixlAgent::notify(const Given& given) {
  const auto peer = py::cast<Name>(given[0]);
  const auto message = py::cast<Blob>(given[1]);
  check_notifications(given, 2);
  agent_.report([&](Agent& agent) { return agent.notify(peer.value, message.value); });
  return success_;
}

void bind_nixl_agent(py::module_& module) {
  using Self = NixlAgent;
  py::class_<Self> type(module, "NixlAgent",
                        "Memory, transfers and notifications of an agent, as nixlAgent has them.");
  type.def(py::init<py::object>(), py::arg("agent"));
  bind_nixl_registering(type);
  add_method<Self, kPrepare, &Self::prepare>(type, "One side of transfers, looked up.");
  add_method<Self, kReleaseList, &Self::release_list>(type, "Again is harmless.");
  add_method<Self, kPrepareView, &Self::prepare_view>(
      type, "Elements of this agent, or of peers, that makeXferReq() takes as a side.");
  add_method<Self, kReleaseView, &Self::release_view>(type, "Ends no transfer.");
  add_method<Self, kMake, &Self::make>(type, "A transfer between indices of prepared lists.");
  add_method<Self, kCreate, &Self::create>(type, "A transfer between two lists.");
  add_method<Self, kPost, &Self::post>(type, "Starts moving bytes.");
  add_method<Self, kStatus, &Self::status>(type, "Success, or in progress.");
  add_method<Self, kRelease, &Self::release>(
      type, "What still runs is cancelled. Raises where its bytes may still move after a second.");
  add_method<Self, kDrop, &Self::drop>(
      type, "Without waiting: what still runs is cancelled, and quiesces by itself.");
  add_method<Self, kTransferOf, &Self::transfer_of>(type, "The towpath.Transfer.");
  add_method<Self, kAskedOf, &Self::asked_of>(type, "The backends that it was asked for with.");
  add_method<Self, kNotifications, &Self::notifications>(
      type, "What came since the last call, behind what `notif_map` has.");
  add_method<Self, kNotify, &Self::notify>(type, "Notifies a peer.");
}

}  // namespace towpath::python
