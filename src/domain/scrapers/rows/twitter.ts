import { handle, link, type ScraperRow, scraper, trim } from '../scraper.ts'

const hosts = ['x.com', 'twitter.com']

/** Scrapers of twitter. */
export const twitter: readonly ScraperRow[] = [
  scraper('twitter', 'profile', {
    price: '0.0030',
    summary: 'A public profile',
    inputs: [handle('NASA', { required: true })],
    answer: 'Who the account is, counts, and whether it is verified',
    fields:
      'rest_id is_blue_verified:boolean legacy:object verification_info:object highlights_info:object business_account:object creator_subscriptions_count:number id affiliates_highlighted_label:object profile_image_shape tipjar_settings:object legacy_extended_profile:object',
    path: '/v1/twitter/profile',
    isCacheable: true,
  }),
  scraper('twitter', 'tweets', {
    price: '0.0030',
    summary: 'Popular posts of a profile',
    note: 'Without an account the platform shows popular posts, not the latest',
    inputs: [handle('NASA', { required: true }), trim],
    answer: 'Some 100 of the posts that most people liked',
    fields: 'tweets:object[]',
    items: ['tweets', 'rest_id url views:object legacy:object'],
    path: '/v1/twitter/user-tweets',
  }),
  scraper('twitter', 'tweet', {
    price: '0.0030',
    summary: 'A single post',
    inputs: [
      link('post', hosts, 'https://x.com/TheoVon/status/1916982720317821050', { required: true }),
      trim,
    ],
    answer: 'Text, author, counts and media',
    fields:
      'rest_id core:object legacy:object views:object source edit_control:object unmention_data:object is_translatable:boolean',
    path: '/v1/twitter/tweet',
    isCacheable: true,
  }),
  scraper('twitter', 'community', {
    price: '0.0030',
    summary: 'A single community',
    inputs: [link('community', hosts, 'https://x.com/i/communities/1926186499399139650', { required: true })],
    answer: 'Name, rules, founder and number of members',
    fields:
      'rest_id name description created_at:number join_policy member_count:number rules:object[] creator_results:object members_facepile_results:object[] id is_member:boolean role',
    items: ['rules', 'id rest_id name description'],
    path: '/v1/twitter/community',
  }),
  scraper('twitter', 'community-tweets', {
    price: '0.0030',
    summary: 'Posts of a community',
    inputs: [link('community', hosts, 'https://x.com/i/communities/1926186499399139650', { required: true })],
    answer: 'Posts with author and counts',
    fields: 'tweets:object[]',
    items: ['tweets', 'id user:object created_at view_count full_text reply_count:number'],
    path: '/v1/twitter/community/tweets',
  }),
  scraper('twitter', 'tweet-transcript', {
    price: '0.0300',
    summary: 'What is said in a video post, as text',
    note: 'Slower than other calls; videos of less than 2 minutes only',
    inputs: [link('post', hosts, 'https://x.com/TheoVon/status/1916982720317821050', { required: true })],
    nothingWhenNull: 'transcript',
    answer: 'One text; null where nobody speaks',
    fields: 'transcript',
    path: '/v1/twitter/tweet/transcript',
    isCacheable: true,
    timeoutSeconds: 60,
  }),
]
