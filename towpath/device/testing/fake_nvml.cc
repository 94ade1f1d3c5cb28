// A libnvidia-ml.so.1 for tests: the GPUs of fake_cuda.cc, of which the first has persistence mode.
// It proves which function gets which argument, and nothing about a GPU.
// Thread: any.
#include <cstring>
#include <mutex>
#include <string>

namespace {

// What the next call of a symbol answers in place of its work.
struct Arranged {
  std::mutex mutex;
  std::string symbol;
  int answer = 0;
};
Arranged& arranged() {
  static auto* const kOne = new Arranged;  // never destroyed: a driver outlives what uses it
  return *kOne;
}

int before(const char* symbol) {
  const std::lock_guard lock(arranged().mutex);
  if (arranged().symbol != symbol) return 0;
  arranged().symbol.clear();
  return arranged().answer;
}

int the_gpus[2] = {1, 0};  // modes

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

void towpath_fake_nvml_fail(const char* symbol, int answer) {
  const std::lock_guard lock(arranged().mutex);
  arranged().symbol = symbol;
  arranged().answer = answer;
}

int nvmlInit_v2() { return before("nvmlInit_v2"); }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int answer) {
  return answer == 3 ? "Not Supported" : answer == 12345 ? nullptr : "an error of the fake";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, int** device) {
  if (const int answer = before("nvmlDeviceGetHandleByPciBusId_v2"); answer != 0) return answer;
  if (std::strcmp(address, "00000000:3B:00.0") == 0)
    *device = &the_gpus[0];
  else if (std::strcmp(address, "00000000:86:00.0") == 0)
    *device = &the_gpus[1];
  else
    return 6;
  return 0;
}
int nvmlDeviceGetPersistenceMode(const int* device, int* mode) {
  if (const int answer = before("nvmlDeviceGetPersistenceMode"); answer != 0) return answer;
  *mode = *device;
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
