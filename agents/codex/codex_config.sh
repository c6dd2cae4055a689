# Prints ~/.codex/config.toml for a home that has none (H §2.4): the commands that Codex runs see everything the agent
# sees, with the search path of the image instead of the one that holds the agent's own CLIs.
search=:$PATH:
search=${search//:$HOME\/.local\/bin:/:}
[ -z "${PTB_CLI_STORE-}" ] || search=${search//:$(dirname "$(type -P codex)"):/:}
search=${search#:}
cat <<END
[projects."$(dirname "$HOME")/"]
trust_level = "trusted"

[projects."$HOME"]
trust_level = "trusted"

[shell_environment_policy]
inherit = "all"
ignore_default_excludes = true

[shell_environment_policy.set]
CI = "1"
NV_CUDA_LIB_VERSION = "12.9.1-1"
NV_LIBNCCL_PACKAGE = "libnccl2=2.27.3-1+cuda12.9"
LD_LIBRARY_PATH = "/usr/local/cuda/lib64:/.singularity.d/libs"
PATH = "/usr/local/nvidia/bin:/usr/local/cuda/bin:${search%:}:/opt/bin"
VLLM_API_KEY = "inspectai"
PYTHONNOUSERSITE = "1"
HF_HOME = "${HF_HOME:-$HOME/hf_cache}"
HOME = "$HOME"
END
