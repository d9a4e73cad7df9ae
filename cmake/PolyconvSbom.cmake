# The bill of materials of what is packaged, polyconv.spdx.json (SPDX 2.3): the packages that are built, and what is linked
# into them or needed beside them, in the versions of this build. Its date is SOURCE_DATE_EPOCH where that is set.

set(sbom_packages "")
set(sbom_relations "")

# sbom_package(<id> <name> <version> <licence> <where it comes from>)
macro(sbom_package id name version licence location)
  if(NOT sbom_packages STREQUAL "")
    string(APPEND sbom_packages ",\n")
  endif()
  string(APPEND sbom_packages "    { \"SPDXID\": \"SPDXRef-${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\","
    " \"downloadLocation\": \"${location}\", \"filesAnalyzed\": false, \"licenseConcluded\": \"${licence}\","
    " \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\" }")
endmacro()
# sbom_relation(<from> <type> <to>): ids without SPDXRef-
macro(sbom_relation from type to)
  if(NOT sbom_relations STREQUAL "")
    string(APPEND sbom_relations ",\n")
  endif()
  string(APPEND sbom_relations "    { \"spdxElementId\": \"SPDXRef-${from}\", \"relationshipType\": \"${type}\","
    " \"relatedSpdxElement\": \"SPDXRef-${to}\" }")
endmacro()
# sbom_known(<version> <out>): NOASSERTION where a package does not tell its version
function(sbom_known version out)
  if("${version}" STREQUAL "")
    set(version NOASSERTION)
  endif()
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

sbom_package(polyconv polyconv ${PROJECT_VERSION} Apache-2.0 NOASSERTION)
sbom_relation(DOCUMENT DESCRIBES polyconv)
sbom_package(libstdcxx "${CMAKE_CXX_COMPILER_ID} C++ runtime" ${CMAKE_CXX_COMPILER_VERSION} "GPL-3.0-or-later WITH GCC-exception-3.1"
  https://gcc.gnu.org)
sbom_relation(polyconv DYNAMIC_LINK libstdcxx)
get_property(sbom_backends GLOBAL PROPERTY POLYCONV_BACKENDS)
foreach(backend IN LISTS sbom_backends)
  sbom_package(backend-${backend} polyconv-backend-${backend} ${PROJECT_VERSION} Apache-2.0 NOASSERTION)
  sbom_relation(polyconv CONTAINS backend-${backend})
endforeach()
if("openmp" IN_LIST sbom_backends)
  sbom_package(openmp "OpenMP runtime of ${CMAKE_CXX_COMPILER_ID}" ${CMAKE_CXX_COMPILER_VERSION}
    "GPL-3.0-or-later WITH GCC-exception-3.1" https://gcc.gnu.org)
  sbom_relation(backend-openmp DYNAMIC_LINK openmp)
endif()
if("tbb" IN_LIST sbom_backends)
  find_package(TBB CONFIG QUIET)
  sbom_known("${TBB_VERSION}" version)
  sbom_package(onetbb oneTBB "${version}" Apache-2.0 https://github.com/uxlfoundation/oneTBB)
  sbom_relation(backend-tbb DYNAMIC_LINK onetbb)
endif()
if(TARGET polyconv-bench) # header-only libraries that are compiled into it
  sbom_package(bench polyconv-bench ${PROJECT_VERSION} Apache-2.0 NOASSERTION)
  sbom_relation(polyconv CONTAINS bench)
  find_package(CLI11 QUIET)
  find_package(nlohmann_json QUIET)
  sbom_known("${CLI11_VERSION}" version)
  sbom_package(cli11 CLI11 "${version}" BSD-3-Clause https://github.com/CLIUtils/CLI11)
  sbom_relation(bench STATIC_LINK cli11)
  sbom_known("${nlohmann_json_VERSION}" version)
  sbom_package(json nlohmann-json "${version}" MIT https://github.com/nlohmann/json)
  sbom_relation(bench STATIC_LINK json)
endif()

string(TIMESTAMP sbom_created "%Y-%m-%dT%H:%M:%SZ" UTC) # of SOURCE_DATE_EPOCH
string(SHA256 sbom_name "${sbom_packages}${sbom_relations}${sbom_created}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/polyconv.spdx.json" @ONLY CONTENT [=[{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "polyconv-@PROJECT_VERSION@",
  "documentNamespace": "https://spdx.org/spdxdocs/polyconv-@PROJECT_VERSION@-@sbom_name@",
  "creationInfo": { "created": "@sbom_created@", "creators": ["Organization: polyconv contributors", "Tool: CMake-@CMAKE_VERSION@"] },
  "packages": [
@sbom_packages@
  ],
  "relationships": [
@sbom_relations@
  ]
}
]=])
install(FILES "${PROJECT_BINARY_DIR}/polyconv.spdx.json" DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
