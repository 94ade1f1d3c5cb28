#include <cstdlib>
#include <cstring>
#include <optional>

#include <towpath/core/format.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/pmix/pmix_abi.h>
#include <towpath/shmem/pmix/pmix_exchange.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::shmem {
namespace pmix {
namespace {

constexpr const char* kPmixLibrary = "libpmix.so.2";

Result<Functions> find_functions(const sys::DynamicLibrary& library) {
  Functions functions;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.find(name));
    if (function == nullptr) missing += cat(missing.empty() ? "" : ", ", name);
  };
  find(functions.init, "PMIx_Init");
  find(functions.finalize, "PMIx_Finalize");
  find(functions.put, "PMIx_Put");
  find(functions.commit, "PMIx_Commit");
  find(functions.fence, "PMIx_Fence");
  find(functions.get, "PMIx_Get");
  find(functions.forget, "PMIx_Value_destruct");
  find(functions.words_for, "PMIx_Error_string");
  if (missing.empty()) return functions;
  return error(Code::unsupported, cat(library.path(), " has no ", missing),
               "install PMIx 4 (apt-get install libpmix2)");
}

}  // namespace
}  // namespace pmix

struct PmixExchange::Client {
  pmix::Functions functions;
  pmix::Process self;
  std::uint32_t pes = 0;
  int rounds = 0;
  bool is_open = false;

  Status check(int status, const std::string& what) const {
    if (status == 0) return {};
    return error(Code::unavailable, cat(what, ": ", functions.words_for(status), " (PMIx)"),
                 "see what the launcher says");
  }

  /// What `rank` put, in `take`'s hands as long as it runs.
  template <typename Take>
  Status get(std::uint32_t rank, const std::string& key, std::uint16_t type, const Take& take) {
    pmix::Process whose = self;
    whose.rank = rank;
    pmix::Value* value = nullptr;
    TOWPATH_TRY(check(functions.get(&whose, key.c_str(), nullptr, 0, &value),
                      cat("cannot get ", key, " of PE ", rank)));
    Status taken;
    if (value->type == type)
      take(value->data);
    else
      taken = error(Code::corrupt, cat("PMIx's ", key, " is of type ", value->type));
    functions.forget(value);
    std::free(value);  // as PMIx's own header does
    return taken;
  }

  Status put(const std::string& key, ConstByteSpan bytes) {
    // PMIx copies; its structure has no const.
    pmix::Value value{.type = pmix::kByteObject};
    value.data.object = {.bytes = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data())),
                         .size = bytes.size()};
    TOWPATH_TRY(
        check(functions.put(pmix::kGlobal, key.c_str(), &value), "cannot notify the others"));
    TOWPATH_TRY(check(functions.commit(), "cannot notify the others"));
    pmix::Info collect;
    std::strcpy(collect.key, "pmix.collect");  // values travel with the fence
    collect.value.type = pmix::kBool;
    collect.value.data.flag = true;
    return check(functions.fence(nullptr, 0, &collect, 1), "not all PEs came to the exchange");
  }
};

PmixExchange::PmixExchange(Private) : client_(std::make_unique<Client>()) {}

PmixExchange::~PmixExchange() {
  if (client_->is_open) (void)client_->functions.finalize(nullptr, 0);
}

Result<std::unique_ptr<PmixExchange>> PmixExchange::open() {
  auto library = sys::DynamicLibrary::open(pmix::kPmixLibrary);
  if (!library.ok())
    return error(Code::unsupported, "a launcher with PMIx started this PE, and PMIx is not here",
                 "apt-get install libpmix2; or unset PMIX_RANK: then the PE is alone")
        .because(library.status());
  auto exchange = std::make_unique<PmixExchange>(Private{});
  Client& client = *exchange->client_;
  TOWPATH_TRY(client.functions, pmix::find_functions(*library));
  TOWPATH_TRY(
      client.check(client.functions.init(&client.self, nullptr, 0), "cannot reach the launcher"));
  client.is_open = true;
  TOWPATH_TRY(client.get(pmix::kAnyRank, "pmix.job.size", pmix::kUint32,
                         [&](const pmix::Value::Data& data) { client.pes = data.number; }));
  if (client.pes == 0 || client.pes > kMaxPes || client.self.rank >= client.pes)
    return error(Code::invalid_argument, cat("PE ", client.self.rank, " of ", client.pes),
                 cat("start at most ", kMaxPes, " PEs"));
  return exchange;
}

int PmixExchange::my_pe() const noexcept { return static_cast<int>(client_->self.rank); }
int PmixExchange::pes() const noexcept { return static_cast<int>(client_->pes); }

Result<std::vector<Bytes>> PmixExchange::all(ConstByteSpan mine) {
  // A key for each round: a value that was read may be kept by PMIx.
  const std::string key = cat("towpath.shmem.", client_->rounds++);
  // PMIx knows no empty object: a byte stands before.
  Bytes marked(1);
  marked.insert(marked.end(), mine.begin(), mine.end());
  TOWPATH_TRY(client_->put(key, marked));
  std::vector<Bytes> reported(client_->pes);
  for (std::uint32_t pe = 0; pe < client_->pes; ++pe) {
    const auto take = [&](const pmix::Value::Data& data) {
      const auto* bytes = reinterpret_cast<const std::byte*>(data.object.bytes);
      if (data.object.size > 0) reported[pe].assign(bytes + 1, bytes + data.object.size);
    };
    TOWPATH_TRY(client_->get(pe, key, pmix::kByteObject, take));
  }
  return reported;
}

}  // namespace towpath::shmem
