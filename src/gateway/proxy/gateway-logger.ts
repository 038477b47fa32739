/** What a gateway tells its log; never a target, a user name or a password. */
export type GatewayLogger = {
  debug(line: object, text: string): void
  error(line: object, text: string): void
}
