#include <utility>

#include <dlfcn.h>
#include <link.h>

#include <towpath/core/format.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::sys {

Result<DynamicLibrary> DynamicLibrary::open(std::string name) {
  void* const before = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void* const handle =
      before != nullptr ? before : ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const said = ::dlerror();
    return error(Code::unsupported,
                 cat(printable(name, 256), " cannot be loaded: ", said != nullptr ? said : "?"));
  }
  return DynamicLibrary(std::move(name), handle, before != nullptr);
}

void* DynamicLibrary::find(const char* symbol) const noexcept { return ::dlsym(handle_, symbol); }

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr)
    return name_;
  return map->l_name;
}

}  // namespace towpath::sys
