# The Conan recipe of polyconv, from the tree that it lies in: conan create packaging/conan
# SPDX-License-Identifier: Apache-2.0
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Polyconv(ConanFile):
    name = "polyconv"
    license = "Apache-2.0"
    description = "Convolution on whatever the machine has: a C library and its backends"
    topics = ("convolution", "neural-networks", "image-processing")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "openmp": [True, False], "tbb": [True, False]}
    default_options = {"shared": True, "openmp": True, "tbb": False}
    package_type = "library"

    def set_version(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        self.version = re.search(r"project\(polyconv VERSION ([0-9.]+)", load(self, os.path.join(root, "CMakeLists.txt")))[1]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for part in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "lib/*", "backends/*", "docs/*.md", "docs/api/*"):
            copy(self, part, root, self.export_sources_folder)

    def requirements(self):
        if self.options.tbb:
            self.requires("onetbb/[>=2021.8]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        backends = ["reference"] + [name for name in ("openmp", "tbb") if self.options.get_safe(name)]
        toolchain.cache_variables["POLYCONV_BACKENDS_ONLY"] = ";".join(backends)
        for part in ("TESTS", "BENCH", "EXAMPLES"):
            toolchain.cache_variables[f"POLYCONV_BUILD_{part}"] = "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # Users get the package's own polyconv-config.cmake: it has polyconv_add_backend, and what a static build needs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/polyconv"]
        self.cpp_info.libs = ["polyconv"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["stdc++", "m", "dl", "pthread"] + (["gomp"] if self.options.openmp else [])
