"""What CMake needs to know of aarch64, for a build by the cross-compiler in the root of that platform."""
ARM = "aarch64-linux-gnu"
CROSS = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={ARM}-gcc",
         f"-DCMAKE_CXX_COMPILER={ARM}-g++", "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static",
         f"-DCMAKE_LIBRARY_ARCHITECTURE={ARM}")
