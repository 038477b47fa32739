export {
  type AccountMail,
  type AccountMailDependencies,
  accountMailQueue,
  accountMailWorker,
  startAccountMails,
} from './account-mails.ts'
export { type Accounts, blockOf, createAccounts, type FindAccount } from './account-service.ts'
export { accountsAfter, emailCommitment, emailsOf } from './account-vault.ts'
export { apiKeyKind } from './api-key.ts'
export { blockMessage, type Contact, contactLink } from './block-text.ts'
export { customerColumn, customerLink, type OfCustomer, withCustomers } from './customer-column.ts'
export {
  adoptChats,
  type ChatSigner,
  type CustomerRecord,
  type Customers,
  changeCustomer,
  createChatSigner,
  createCustomerIds,
  createCustomers,
  customerField,
  customerIdField,
  customerRefs,
  customersAfter,
  findChat,
  findCustomer,
  listCustomers,
  requireHolderNamed,
  resellerOfCustomer,
  type SignedChat,
} from './customers.ts'
export {
  createKeyFinder,
  generateStoredKey,
  type KeyKind,
  type KeyRow,
  keyCommitment,
  type NewKey,
} from './key-store.ts'
export type { ListedResource, Listing, Owned } from './list-things.ts'
