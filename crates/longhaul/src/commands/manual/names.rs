//! Completions of the names that the user's configuration gives to nodes: `cp run7 ce<TAB>` becomes `cp run7 cern:`.
//!
//! The generated scripts know only the command line. The added part runs `longhaul names` at each key press.

use clap_complete::Shell;

/// Adds the completion of names to a shell's script.
pub(super) fn with_names(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + FISH,
        // For other shells only commands and options are completed.
        _ => script,
    }
}

const BASH: &str = r#"
# Names of nodes in ~/.config/longhaul/config.toml, and files beside them.
_longhaul_with_names() {
    _longhaul "$@"
    local word="${COMP_WORDS[COMP_CWORD]}" names
    if [[ ${COMP_CWORD} -gt 1 && "${word}" != -* ]]; then
        names=($(compgen -W "$(longhaul names 2>/dev/null)" -- "${word}"))
        if [[ ${#names[@]} -gt 0 ]]; then
            COMPREPLY+=("${names[@]}" $(compgen -f -- "${word}"))
            [[ ${#COMPREPLY[@]} -eq 1 ]] && compopt -o nospace 2>/dev/null
        fi
    fi
    return 0
}
complete -F _longhaul_with_names -o bashdefault -o default longhaul
"#;

const FISH: &str = r"
# Names of nodes in ~/.config/longhaul/config.toml.
complete -c longhaul -n '__fish_seen_subcommand_from cp copy sync ls stat mkdir rm mv digest probe' -a '(longhaul names 2>/dev/null)'
";

const ZSH: &str = r#"
# Names of nodes in ~/.config/longhaul/config.toml, and files.
_longhaul_places() {
    local -a names
    names=(${(f)"$(longhaul names 2>/dev/null)"})
    compadd -S '' -a names
    _files
}
"#;

/// The arguments that may be a locator, as the generated script names them.
const PLACES: [&str; 6] =
    ["'*::locators -- ", "':locator -- ", "':from -- ", "':to -- ", "':target -- ", "'::target -- "];

fn zsh(script: &str) -> String {
    let (head, rest) = script.split_once('\n').unwrap_or((script, ""));
    let line = |line: &str| match line.strip_suffix(":_default' \\") {
        Some(start) if PLACES.iter().any(|place| line.starts_with(place)) => format!("{start}:_longhaul_places' \\\n"),
        _ => format!("{line}\n"),
    };
    let rest: String = rest.lines().map(line).collect();
    // `#compdef` is the first line.
    format!("{head}\n{ZSH}{rest}")
}
