import type { Command } from 'commander'

/** The command that several rooms put theirs under, such as `ledger`: made by the first of them. */
export const groupCommand = (program: Command, name: string, description: string): Command =>
  program.commands.find((command) => command.name() === name) ??
  program.command(name).description(description)

/** `ledger …`: what finance asks of the log. */
export const ledgerCommand = (program: Command): Command =>
  groupCommand(program, 'ledger', 'audit the log: balances, replay, verify, seals, export, periods')

/** `finance …`: who reads the books over HTTP, and what providers say of the same money. */
export const financeCommand = (program: Command): Command =>
  groupCommand(
    program,
    'finance',
    'who reads the books over HTTP, and statements of providers against the books',
  )
