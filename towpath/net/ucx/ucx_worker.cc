#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/eventfd.h>

#include <towpath/core/format.h>
#include <towpath/net/ucx/ucx_devices.h>
#include <towpath/net/ucx/ucx_library.h>
#include <towpath/net/ucx/ucx_receives.h>
#include <towpath/net/ucx/ucx_staging.h>
#include <towpath/net/ucx/ucx_worker.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>

namespace towpath::net {
namespace {

constexpr const char* kTcp = "TCP_";
constexpr std::array<std::string_view, 4> kOfTransport = {"TX_SEG_SIZE", "RX_SEG_SIZE", "MAX_POLL",
                                                          "CONN_NB"};
/// What UCX puts before a message in a segment, and to spare.
constexpr std::size_t kSegmentExtra = 1024;
/// Rounds of progress that a closing worker gives its endpoints to leave.
constexpr int kClosingRounds = 1000;

/// Descriptors that a worker takes, and a way to a peer over some transports, and to spare.
constexpr std::size_t kWorkerDescriptors = 32;
constexpr std::size_t kWayDescriptors = 8;

/// A worker of UCX and all that it hangs on, torn down in the right order.
struct Engine {
  Engine(const UcxLibrary& its_ucx, const UcxOptions& options, MessageListener& its_listener)
      : ucx(its_ucx),
        takes_devices(options.devices_too),
        buffers(options.message_bytes),
        listener(its_listener),
        receives(ucx, options.message_bytes, its_listener),
        staging(ucx, its_listener) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  const UcxLibrary ucx;
  const bool takes_devices;
  MessageBuffers buffers;
  MessageListener& listener;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_address_t* address = nullptr;
  std::size_t address_bytes = 0;
  int fd = -1;
  std::vector<void*> closing;  // requests of endpoints on their way out
  UcxReceives receives;
  UcxStaging staging;
};

void sweep(Engine& engine) {
  std::erase_if(engine.closing, [&](void* request) {
    if (engine.ucx.ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    engine.ucx.ucp_request_free(request);
    return true;
  });
}

Engine::~Engine() {
  receives.cancel();
  staging.cancel();
  for (int round = 0; !closing.empty() && round < kClosingRounds; ++round) {
    ucx.ucp_worker_progress(worker);
    sweep(*this);
  }
  for (void* request : closing) ucx.ucp_request_free(request);
  if (address != nullptr) ucx.ucp_worker_release_address(worker, address);
  if (worker != nullptr) ucx.ucp_worker_destroy(worker);
  if (context != nullptr) ucx.ucp_cleanup(context);
}

Code code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT: return Code::exhausted;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_NO_ELEM:
    case UCS_ERR_UNSUPPORTED: return Code::unsupported;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR: return Code::invalid_argument;
    default: return Code::peer_lost;
  }
}

Status failure(const UcxLibrary& ucx, ucs_status_t status, std::string_view what,
               std::string hint = {}) {
  return error(code_of(status), cat(what, ": ", ucx.say(status)), std::move(hint));
}

// ---- Endpoint

/// Messages that UCX has taken and not sent, without those in rooms.
struct Unsent {
  std::size_t messages = 0;
  std::uint64_t bytes = 0;
};

/// A message on its way.
struct Sending {
  Engine& engine;
  std::shared_ptr<Unsent> unsent;  // outlives the endpoint: the callback may come later
  std::unique_ptr<MessageBuffer> buffer;
  DeviceStagingBuffer* room = nullptr;  // null: it stands in the buffer

  /// UCX has taken it.
  void wait() const {
    if (room != nullptr) return;
    ++unsent->messages;
    unsent->bytes += buffer->size;
  }
  void has_left() const {
    if (room != nullptr) return;
    --unsent->messages;
    unsent->bytes -= buffer->size;
  }
  /// Gives back where it stood.
  void finish() {
    if (room != nullptr)
      engine.listener.on_staging_left(*room);
    else
      engine.buffers.give_back(std::move(buffer));
  }
};

extern "C" void towpath_ucx_sent(void* request, ucs_status_t, void* user) {
  const std::unique_ptr<Sending> sending(static_cast<Sending*>(user));
  sending->has_left();
  sending->engine.ucx.ucp_request_free(request);
  sending->finish();
}

class RealEndpoint final : public MessageEndpoint {
 public:
  RealEndpoint(Engine& engine, void* owner) : engine_(engine), owner_(owner) {}
  ~RealEndpoint() override;

  Status connect(ConstByteSpan address);
  std::size_t unsent() const noexcept override { return unsent_->messages; }
  std::uint64_t unsent_bytes() const noexcept override { return unsent_->bytes; }
  Status send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest, std::uint64_t rest_bytes,
              std::optional<unsigned> into) override;
  Status send_room(DeviceStagingBuffer& room, std::uint64_t offset, std::uint64_t bytes,
                   std::optional<unsigned> into) override;
  void copy(BodySource&) override {}  // done with before send() returned
  void broke(ucs_status_t status);

 private:
  Status send(std::unique_ptr<Sending>& sending, ConstByteSpan message, ucs_memory_type_t memory,
              std::optional<unsigned> into);

  Engine& engine_;
  void* const owner_;
  ucp_ep_h endpoint_ = nullptr;
  const std::shared_ptr<Unsent> unsent_ = std::make_shared<Unsent>();
};

extern "C" void towpath_ucx_broke(void* user, ucp_ep_h, ucs_status_t status) {
  static_cast<RealEndpoint*>(user)->broke(status);
}

void RealEndpoint::broke(ucs_status_t status) {
  engine_.listener.on_broken(owner_,
                             error(Code::peer_lost, cat("UCX reports: ", engine_.ucx.say(status))));
}

Status RealEndpoint::connect(ConstByteSpan address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = towpath_ucx_broke, .arg = this};
  const ucs_status_t status = engine_.ucx.ucp_ep_create(engine_.worker, &params, &endpoint_);
  if (status == UCS_OK) return {};
  return failure(engine_.ucx, status, "UCX finds no way to the peer",
                 "look at `ucx_info -d` on both sides: they need a transport in common");
}

RealEndpoint::~RealEndpoint() {
  if (endpoint_ == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = engine_.ucx.ucp_ep_close_nbx(endpoint_, &param);
  if (UCS_PTR_IS_PTR(request)) engine_.closing.push_back(request);
}

// After an error `sending` still has the message.
Status RealEndpoint::send(std::unique_ptr<Sending>& sending, ConstByteSpan message,
                          ucs_memory_type_t memory, std::optional<unsigned> into) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = memory;
  param.cb.send = towpath_ucx_sent;
  param.user_data = sending.get();
  void* const request = engine_.ucx.ucp_tag_send_nbx(endpoint_, message.data(), message.size(),
                                                     ucx_tag(into), &param);
  if (UCS_PTR_IS_ERR(request))
    return failure(engine_.ucx, UCS_PTR_STATUS(request), "UCX does not send");
  if (UCS_PTR_IS_PTR(request)) {
    sending->wait();
    (void)sending.release();  // towpath_ucx_sent() has it now
  } else {
    sending->finish();
  }
  return {};
}

Status RealEndpoint::send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest,
                          std::uint64_t rest_bytes, std::optional<unsigned> into) {
  if (rest != nullptr) append_rest(*buffer, *rest, rest_bytes);
  engine_.receives.note_answered(buffer->size);
  auto sending = std::make_unique<Sending>(Sending{engine_, unsent_, std::move(buffer)});
  Status sent = send(sending, sending->buffer->with_prefix(), UCS_MEMORY_TYPE_HOST, into);
  if (!sent.ok()) sending->finish();
  return sent;
}

Status RealEndpoint::send_room(DeviceStagingBuffer& room, std::uint64_t offset, std::uint64_t bytes,
                               std::optional<unsigned> into) {
  if (!engine_.takes_devices) return MessageEndpoint::send_room(room, offset, bytes, into);
  auto sending = std::make_unique<Sending>(Sending{engine_, unsent_, nullptr, &room});
  return send(sending, bytes_at(room.address + offset, bytes), UCS_MEMORY_TYPE_CUDA, into);
}

// ---- Worker

class RealWorker final : public MessageWorker {
 public:
  RealWorker(const UcxLibrary& ucx, const UcxOptions& options, MessageListener& listener)
      : engine_(ucx, options, listener) {}

  Status open(const UcxOptions& options);
  ConstByteSpan address() const noexcept override {
    return {reinterpret_cast<const std::byte*>(engine_.address), engine_.address_bytes};
  }
  MessageBuffers& buffers() noexcept override { return engine_.buffers; }
  Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address,
                                                   std::unique_ptr<MessageBuffer> first,
                                                   void* owner) override;
  Status receive_into(DeviceStagingBuffer& room) override {
    return engine_.takes_devices ? engine_.staging.add(room) : MessageWorker::receive_into(room);
  }
  bool progress() override;
  std::uint64_t work() const noexcept override { return engine_.receives.work(); }
  bool arm() override {
    return !engine_.staging.has_filled() &&
           engine_.ucx.ucp_worker_arm(engine_.worker) != UCS_ERR_BUSY;
  }
  int fd() const noexcept override { return engine_.fd; }

 private:
  Status open_context(const UcxOptions& options);
  Status open_worker();

  Engine engine_;
};

using Settings = std::map<std::string, std::string>;

/// What we ask of UCX where the user's settings say nothing else.
Settings settings_of(const UcxOptions& options) {
  Settings all = options.settings;
  // Where there is no TCP, UCX would warn of them.
  if (options.transports.empty() || options.transports.find("tcp") != std::string::npos) {
    const std::string segment = cat(options.message_bytes + kSegmentExtra);
    const std::array<std::string, kOfTransport.size()> values = {
        segment, segment,
        "1",   // of several events at once, a later one may be of a connection that was just freed
        "y"};  // else connect() holds everybody up for two minutes when the network does not answer
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!all.contains(cat(kTcp, kOfTransport[i]))) all.emplace(kOfTransport[i], values[i]);
    }
  }
  // Nothing that needs an answer (see kUcxTag), but for what only goes fast that way; and then it
  // is UCX that has to notice that the rest of a message will not come.
  if (!options.devices_too) {
    all.emplace("RNDV_THRESH", "inf");
    all.emplace("KEEPALIVE_INTERVAL", "inf");  // it does not notice a cut link; our heartbeat does
  }
  if (!options.transports.empty()) all.emplace("TLS", options.transports);
  if (!options.devices.empty()) all.emplace("NET_DEVICES", options.devices);
  return all;
}

// Ours of a transport are named without it in UCX 1.13: it takes any name with "TCP_" in front, but
// such a one changes nothing (it cuts every message into 8 KiB). Later ones take only such.
ucs_status_t modify(const UcxLibrary& ucx, ucp_config_t* config, const std::string& name,
                    const std::string& value) {
  const ucs_status_t plain = ucx.ucp_config_modify(config, name.c_str(), value.c_str());
  if (plain == UCS_OK || std::ranges::find(kOfTransport, name) == kOfTransport.end()) return plain;
  return ucx.ucp_config_modify(config, cat(kTcp, name).c_str(), value.c_str());
}

Result<ucp_context_h> make_context(const UcxLibrary& ucx, const Settings& settings) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return failure(ucx, status, "UCX cannot read its configuration");
  const std::unique_ptr<ucp_config_t, decltype(ucx.ucp_config_release)> guard(
      config, ucx.ucp_config_release);
  for (const auto& [name, value] : settings) {
    status = modify(ucx, config, name, value);
    if (status != UCS_OK) {
      return error(
          Code::invalid_argument,
          cat("UCX does not take ", printable(name), "=", printable(value), ": ", ucx.say(status)),
          "`ucx_info -c` lists the settings");
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  status = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  if (status == UCS_OK) return context;
  return failure(
      ucx, status, "UCX does not start",
      "`ucx_info -d` lists devices and transports; `towpath doctor` says which ports are "
      "near a GPU, for UCX_NET_DEVICES");
}

/// Errors: unsupported (it takes no GPU's memory).
Status check_devices(const UcxLibrary& ucx, ucp_context_h context) {
  ucp_context_attr_t facts{};
  facts.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  const ucs_status_t asked = ucx.ucp_context_query(context, &facts);
  if (asked == UCS_OK && (facts.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0) return {};
  return error(Code::unsupported,
               cat("UCX ", ucx.ucp_get_version_string(), " takes no memory of a GPU: it was built ",
                   "without CUDA, finds no driver, or UCX_TLS leaves cuda_copy out"),
               "install a UCX that was built with CUDA (the package libucx-cu12 or libucx-cu13 of "
               "PyPI is one), where the loader finds it before others");
}

/// All that UCX has for these transports; empty: it does not tell.
std::vector<std::string> network_devices(const UcxLibrary& ucx, Settings settings) {
  settings["NET_DEVICES"] = "all";
  for (const char* const others : {"SELF_DEVICES", "SHM_DEVICES", "ACC_DEVICES"})
    settings[others] = "";
  const auto context = make_context(ucx, settings);
  if (!context.ok()) return {};
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (stream != nullptr) {
    ucx.ucp_context_print_info(*context, stream);
    std::fclose(stream);
  }
  ucx.ucp_cleanup(*context);
  const std::unique_ptr<char, decltype(&std::free)> guard(text, &std::free);
  return devices_in({text, size});
}

Status RealWorker::open_context(const UcxOptions& options) {
  Settings settings = settings_of(options);
  if (!options.devices.empty()) {
    // UCX would warn of a name that it does not know, and go on with the others.
    const std::vector<std::string> known = network_devices(engine_.ucx, settings);
    if (!known.empty()) {
      TOWPATH_TRY(settings["NET_DEVICES"], choose_devices(options.devices, known));
    }
  }
  TOWPATH_TRY(engine_.context, make_context(engine_.ucx, settings));
  return options.devices_too ? check_devices(engine_.ucx, engine_.context) : Status();
}

Status RealWorker::open_worker() {
  const UcxLibrary& ucx = engine_.ucx;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  ucs_status_t status = ucx.ucp_worker_create(engine_.context, &params, &engine_.worker);
  if (status == UCS_OK) engine_.staging.open(engine_.worker);
  if (status == UCS_OK) status = ucx.ucp_worker_get_efd(engine_.worker, &engine_.fd);
  if (status == UCS_OK)
    status = ucx.ucp_worker_get_address(engine_.worker, &engine_.address, &engine_.address_bytes);
  return status == UCS_OK ? Status() : failure(ucx, status, "UCX makes no worker");
}

/// UCX asserts, or reports of a peer, where it gets no descriptor: so it is asked before.
Status check_descriptors(std::string_view what, std::size_t needed) {
  std::vector<sys::Fd> free;
  free.reserve(needed);
  while (free.size() < needed) {
    free.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (free.back()) continue;
    const int reason = errno;
    return sys::os_error(reason, cat("UCX needs ", needed, " descriptors for ", what, "; ",
                                     free.size() - 1, " are free"));
  }
  return {};
}

Status RealWorker::open(const UcxOptions& options) {
  TOWPATH_TRY(check_descriptors("a worker", kWorkerDescriptors));
  TOWPATH_TRY(open_context(options));
  TOWPATH_TRY(open_worker());
  return engine_.receives.open(engine_.worker);
}

Result<std::unique_ptr<MessageEndpoint>> RealWorker::connect(ConstByteSpan address,
                                                             std::unique_ptr<MessageBuffer> first,
                                                             void* owner) {
  TOWPATH_TRY(check_descriptors("a way to a peer", kWayDescriptors));
  auto endpoint = std::make_unique<RealEndpoint>(engine_, owner);
  TOWPATH_TRY(endpoint->connect(address));
  if (first) TOWPATH_TRY(endpoint->send(std::move(first), nullptr, 0, {}));
  return endpoint;
}

bool RealWorker::progress() {
  engine_.receives.begin_call();
  bool some = engine_.ucx.ucp_worker_progress(engine_.worker) != 0;
  some |= engine_.receives.renew();
  some |= engine_.staging.deliver();
  if (!engine_.closing.empty()) sweep(engine_);
  return some;
}

/// For the probe, which talks to nobody.
class Deaf final : public MessageListener {
 public:
  BodySink* on_message(const Message&) override { return nullptr; }
  void on_broken(void*, const Status&) override {}
};

}  // namespace

Result<std::unique_ptr<MessageWorker>> open_ucx_worker(const UcxOptions& options,
                                                       MessageListener& listener) {
  TOWPATH_TRY(const UcxLibrary ucx, UcxLibrary::open());
  auto worker = std::make_unique<RealWorker>(ucx, options, listener);
  TOWPATH_TRY(worker->open(options));
  return worker;
}

namespace {

/// Whether a worker can be made, which `works` says in words.
Finding probe(const UcxOptions& options, std::string question, std::string_view works) {
  Finding finding{.question = std::move(question),
                  .signal = "libucp.so.0, a context and a worker",
                  .source = "the dynamic linker's search path"};
  Deaf deaf;
  const auto ucx = UcxLibrary::open();
  const Status status = ucx.ok() ? open_ucx_worker(options, deaf).status() : ucx.status();
  finding.verdict = status.ok() ? Verdict::yes : Verdict::no;
  finding.reason = status.ok() ? cat("UCX ", ucx->ucp_get_version_string(), works)
                               : std::string(status.message());
  finding.hint = status.hint();
  return finding;
}

}  // namespace

Finding probe_ucx() { return probe({}, "Can agents reach other machines over UCX?", " works"); }

Finding probe_ucx_devices() {
  return probe({.devices_too = true}, "Does UCX take a GPU's memory itself?", " does");
}

}  // namespace towpath::net
