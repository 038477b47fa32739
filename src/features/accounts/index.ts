export { type Accounts, blockOf, createAccounts, type FindAccount } from './account-service.ts'
export { accountsAfter, emailCommitment } from './account-vault.ts'
export { apiKeyKind } from './api-key.ts'
export {
  type Customers,
  createCustomerIds,
  createCustomers,
  customerField,
  customerIdField,
  requireHolderNamed,
} from './customer-service.ts'
export {
  adoptChats,
  type ChatSigner,
  type CustomerRecord,
  changeCustomer,
  createChatSigner,
  customerRefs,
  customersAfter,
  findChat,
  findCustomer,
  listCustomers,
  resellerOfCustomer,
  type SignedChat,
} from './customer-vault.ts'
export {
  createKeyFinder,
  generateStoredKey,
  type KeyKind,
  type KeyRow,
  keyCommitment,
  type NewKey,
} from './key-store.ts'
export type { ListedResource, Listing, Owned } from './list-things.ts'
