import { type Command, Help, type HelpConfiguration, type Option } from 'commander'

/** The required options of each command that `checkRequiredLast` took over. */
export type RequiredOptions = ReadonlyMap<Command, readonly Option[]>

/**
 * Replaces commander's check of required options. Commander makes it before it checks for unknown options: for
 * `--emial` it would report that `--email` is missing. Here the check comes last and names all missing options.
 */
export const checkRequiredLast = (program: Command, commands: readonly Command[]): RequiredOptions => {
  const required = new Map<Command, readonly Option[]>()
  for (const command of commands) {
    const options = command.options.filter(({ mandatory }) => mandatory)
    for (const option of options) option.mandatory = false
    required.set(command, options)
  }
  program.hook('preAction', (_program, command) => {
    const missing = (required.get(command) ?? []).filter(
      (option) => command.getOptionValue(option.attributeName()) === undefined,
    )
    if (missing.length === 0) return
    const names = missing.map(({ flags }) => `'${flags}'`).join(', ')
    command.error(`error: required option${missing.length === 1 ? '' : 's'} ${names} not specified`)
  })
  return required
}

/** Help that shows required options: in the usage by their names, in the list by the word "(required)". */
export const requiredHelp = (required: RequiredOptions): HelpConfiguration => {
  const all = new Set([...required.values()].flat())
  return {
    commandUsage: (command) => {
      const names = (required.get(command) ?? []).map(({ flags }) => ` ${flags}`).join('')
      const usage = Help.prototype.commandUsage.call(new Help(), command)
      return names === '' ? usage : usage.replace(' [options]', `${names} [options]`)
    },
    optionDescription: (option) => {
      const text = Help.prototype.optionDescription.call(new Help(), option)
      return all.has(option) ? `${text} (required)` : text
    },
  }
}
