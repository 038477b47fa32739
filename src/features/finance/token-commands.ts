import { type Command, Option } from 'commander'
import { type FinanceTokenRefusal, isTokenActive } from '../../domain/finance/tokens.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import { expiryOf, instantOption, nameOption, withExamples } from '../../platform/cli/options.ts'
import { CliMisuse, CliRefusal, fields, table } from '../../platform/cli/output.ts'
import { createFinanceTokenService } from './token-service.ts'

const refusalOf = (refusal: FinanceTokenRefusal, tokenId: string): CliRefusal => {
  switch (refusal.code) {
    case 'unknown_token':
      return new CliMisuse(
        `no finance token has the id ${tokenId}; "finance token list" shows them`,
        {},
        'not_found',
      )
    case 'expiry_passed':
      return new CliMisuse('the expiry is in the past')
    case 'too_many_tokens':
      return new CliRefusal(
        refusal.code,
        `${refusal.limit} tokens work, as many as there may be; revoke one first`,
      )
    default:
      return refusal satisfies never
  }
}

type IssueOptions = {
  readonly name: string
  readonly expiresAt?: number
  readonly expiresInDays?: number
  readonly neverExpires?: true
}

const registerIssue = (token: Command, cli: Cli): void => {
  const command = token
    .command('create')
    .description(
      'issue a token that reads the books over HTTP, for as long as you say; it is shown this once',
    )
    .requiredOption(
      '--name <text>',
      'what it is for: it stands in the log for ever, name no person',
      nameOption,
    )
    .option('--expires-at <instant>', 'when it stops to work', instantOption)
    .option('--expires-in-days <n>', 'how long it works', wholeNumber(1, 3650))
    .addOption(
      new Option('--never-expires', 'it works until it is revoked').conflicts(['expiresAt', 'expiresInDays']),
    )
    .hook('preAction', (command) => {
      const { expiresAt, expiresInDays, neverExpires } = command.opts<IssueOptions>()
      if (expiresAt === undefined && expiresInDays === undefined && !neverExpires)
        command.error(
          'error: say how long it works: --expires-in-days (e.g. 90), --expires-at or --never-expires',
        )
    })
    .action(
      cli.action(async (context, options: IssueOptions) => {
        const expiresAtMs = expiryOf(context, options)
        const issued = await createFinanceTokenService(context).issue(
          { name: options.name, expiresAtMs },
          context,
        )
        if (issued.outcome === 'refused') throw refusalOf(issued.refusal, '')
        const { tokenId, token: secret } = issued
        const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
        return {
          json: { tokenId, token: secret, name: options.name, expiresAt },
          text: `${fields({ token: tokenId, name: options.name, 'expires at': expiresAt ?? 'never: it works until it is revoked' })}\n\n${secret}\n\nKeep it now: it is not shown again. Send it as Authorization: Bearer to /finance/v1.`,
        }
      }),
    )
  withExamples(command, ['npx farebox finance token create --name "monthly close" --expires-in-days 90'])
}

/** `finance token create|revoke|list` */
export const registerFinanceTokens = (program: Command, cli: Cli): void => {
  const finance = groupCommand(program, 'finance')
  const token = groupCommand(finance, 'token').description('issue, revoke and list finance tokens')
  registerIssue(token, cli)
  const revoke = token
    .command('revoke <tokenId>')
    .description('end a token for good, at once on every process')
    .action(
      cli.action(async (context, tokenId: string) => {
        const result = await createFinanceTokenService(context).revoke(tokenId, context)
        if (result.outcome === 'refused') throw refusalOf(result.refusal, tokenId)
        const { changed } = result
        return {
          json: { tokenId, revoked: true, changed },
          text: changed ? `revoked ${tokenId}` : `${tokenId} was revoked already`,
        }
      }),
    )
  withExamples(revoke, ['npx farebox finance token revoke fin_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b'])
  token
    .command('list')
    .description('list tokens; the tokens themselves are not kept')
    .action(
      cli.action(async (context) => {
        const nowMs = context.clock()
        const tokens = [...(await createFinanceTokenService(context).read(context))].map(
          ([tokenId, state]) => ({
            tokenId,
            name: state.name,
            prefix: state.displayPrefix,
            issuedAt: isoTime(state.issuedAtMs),
            expiresAt: state.expiresAtMs === null ? null : isoTime(state.expiresAtMs),
            state: state.revoked ? 'revoked' : isTokenActive(state, nowMs) ? 'works' : 'expired',
          }),
        )
        const text = table(
          tokens,
          [
            { title: 'TOKEN', value: ({ tokenId }) => tokenId },
            { title: 'NAME', value: ({ name }) => name },
            { title: 'STARTS WITH', value: ({ prefix }) => prefix },
            { title: 'ISSUED AT', value: ({ issuedAt }) => issuedAt },
            { title: 'EXPIRES AT', value: ({ expiresAt }) => expiresAt ?? 'never' },
            { title: 'STATE', value: ({ state }) => state },
          ],
          'no finance tokens; "finance token create" makes one',
        )
        return { json: { tokens }, text }
      }),
    )
}
