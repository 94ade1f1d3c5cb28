// `towpath version`.
#include "tools/command.h"
#include "tools/output.h"

namespace towpath::tools {

void add_version(Command& towpath) {
  Command command = towpath.add("version", "Print the version");
  command.when_chosen([]() -> Result<Exit> {
    TOWPATH_TRY(print("towpath " TOWPATH_VERSION "\n"));
    return Exit::ok;
  });
}

}  // namespace towpath::tools
