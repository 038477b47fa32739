export { minPrefixLength } from './whitelist.ts'
export { adoptWhitelist, createWhitelistSigner, type SignedEntry } from './whitelist-signer.ts'
