import {
  type Answers,
  count,
  countText,
  entries,
  flag,
  id,
  isoTime,
  link,
  links,
  list,
  media,
  milliseconds,
  mixed,
  number,
  object,
  picture,
  pixels,
  position,
  positionNumber,
  type Shape,
  seconds,
  size,
  text,
  unixTime,
  word,
} from './fields.ts'

const file = {
  uri: id('the file', 'tos-example/0000000000000001'),
  url_list: links('Links to the file', 'file'),
  ...size,
}
const image = (meaning: string) => object(meaning, file)
const clip = (meaning: string) =>
  object(meaning, { ...file, data_size: number('Size of the file', 2_337_618, 'bytes') })

const webVtt = 'WEBVTT\n\n00:00:00.120 --> 00:00:02.000\nToday we walk around the lake'

const uid = id('the account')
const secUid = id('the account, internal to the platform', 'MS4wLjABAAAAexample0000001')
const uniqueId = text('Name of the account', 'example')
const nickname = text('Name that is shown', 'Example Person')
const signature = text('What the account writes about itself', 'I film lakes')
const region = word('Country, two letters', 'US')
const language = word('Language, two letters', 'en')

const account: Shape = {
  uid,
  sec_uid: secUid,
  unique_id: uniqueId,
  nickname,
  signature,
  region,
  language,
  custom_verify: text('Why the account is verified; empty if it is not', ''),
  follower_count: count('followers', 2_175),
  following_count: count('accounts that it follows', 10),
  total_favorited: count('likes of its videos', 197_202),
  aweme_count: count('videos', 71),
  avatar_thumb: image('Small picture of the account'),
  avatar_medium: image('Picture of the account'),
  avatar_larger: image('Large picture of the account'),
}
const follower: Shape = { ...account, create_time: unixTime('When it began to follow') }

const statistics = object('Figures', {
  aweme_id: id('the video'),
  play_count: count('plays', 559_925),
  digg_count: count('likes', 59_605),
  comment_count: count('comments', 587),
  share_count: count('shares', 3_424),
  collect_count: count('accounts that saved it', 1_565),
  repost_count: count('reposts', 12),
  download_count: count('downloads', 178),
  whatsapp_share_count: count('shares on WhatsApp', 7),
})

const song: Shape = {
  id_str: id('the sound, for song-videos'),
  title: text('Title of the sound', 'original sound'),
  author: text('Who made the sound', 'Example Person'),
  album: text('Album', 'Example Album'),
  duration: seconds('Length', 60),
  is_original_sound: flag('Whether the sound is that of a video', true),
  user_count: count('videos with the sound', 358),
  owner_handle: text('Account of the maker', 'example'),
  cover_medium: image('Picture of the sound'),
  play_url: image('Audio of the sound'),
}

const videoFile = object('The file', {
  duration: milliseconds('Length', 173_675),
  ...size,
  ratio: word('Height of the best quality', '540p'),
  cover: image('Preview picture'),
  dynamic_cover: image('Preview that moves'),
  play_addr: clip('The video'),
  download_addr: clip('The video with a mark of the platform'),
})
const soundVideo: Shape = {
  aweme_id: id('the video'),
  desc: text('Text of the video', 'A morning at the lake #lake'),
  desc_language: language,
  create_time: unixTime('When the video was published'),
  region,
  author: object('Who made the video', account),
  statistics,
  video: videoFile,
  music: object('Sound of the video', song),
  text_extra: list('Hashtags and names in the text', {
    hashtag_id: id('the hashtag'),
    hashtag_name: text('The hashtag', 'lake'),
    start: number('Where it begins in the text, from 0', 22),
    end: number('Where it ends in the text', 27),
  }),
  is_ad: flag('Whether the video is an advertisement', false),
  is_paid_partnership: flag('Whether it is a paid partnership', false),
}
const videoUrl = link('Link to the video', '@example/video/7000000000000000001')
const video: Shape = {
  url: videoUrl,
  ...soundVideo,
  create_time_utc: isoTime('When the video was published'),
}

const more = number('1 if there is another page, else 0', 1)
const moreFlag = flag('Whether there is another page', true)

const comment: Shape = {
  cid: id('the comment, for comment-replies'),
  aweme_id: id('the video'),
  text: text('Text of the comment', 'Where is this lake?'),
  comment_language: language,
  create_time: unixTime('When the comment was written'),
  digg_count: count('likes', 1_015),
  reply_id: id('the comment that it answers; 0 if none'),
  is_author_digged: flag('Whether the maker of the video likes it', false),
  user: object('Who wrote the comment', {
    uid,
    sec_uid: secUid,
    unique_id: uniqueId,
    nickname,
    avatar_thumb: image('Small picture of the account'),
  }),
}

const profilePictures: Shape = {
  avatarThumb: picture('Small picture of the account'),
  avatarMedium: picture('Picture of the account'),
  avatarLarger: picture('Large picture of the account'),
}

const product: Shape = {
  product_id: id('the product'),
  title: text('Name of the product', 'Running shoes'),
  image: image('Picture of the product'),
  product_price_info: object('Price', {
    sku_id: id('the variant'),
    currency_name: word('Currency', 'USD'),
    currency_symbol: word('Sign of the currency', '$'),
    sale_price_decimal: word('Price now', '14.96', 'units of `currency_name`'),
    origin_price_decimal: word('Price before', '24.99', 'units of `currency_name`'),
    discount_decimal: word('Discount, from 0 to 1', '0.4'),
    discount_format: word('Discount', '40%', 'percent'),
  }),
  rate_info: object('Rating', {
    score: number('Stars, from 1 to 5', 4.5),
    review_count: countText('reviews', '91316'),
  }),
  sold_info: object('Sales', { sold_count: count('items sold', 24_737) }),
  seller_info: object('Seller', {
    seller_id: id('the seller'),
    shop_name: text('Name of the shop', 'Example Shoes'),
    shop_logo: image('Logo of the shop'),
  }),
  seo_url: object('Page of the product', {
    canonical_url: link('Link to the product', 'shop/pdp/1'),
    slug: word('Name in links', 'running-shoes'),
  }),
}
const shop: Shape = {
  seller_id: id('the seller'),
  shop_name: text('Name of the shop', 'Example Shoes'),
  shop_link: link('Link to the shop', 'shop/store/example-shoes/1'),
  shop_logo: image('Logo of the shop'),
  shop_rating: word('Stars, from 1 to 5', '4.6'),
  desc: text('What the shop sells', 'Shoes for long runs'),
  region,
  sold_count: count('items sold', 50_887),
  on_sell_product_count: count('products', 14),
  review_count: count('reviews', 4_215),
  followers_count: countText('followers', '1796'),
  video_count: countText('videos', '100'),
  creator_name: text('Name of the account of the shop', 'Example Shoes'),
}
const pagination = (hasMore: boolean) =>
  object('Place in the list', {
    page: number('The page, from 1', 1),
    size: count('entries of a page', 20),
    total: count('entries', 100),
    has_more: flag('Whether there is another page', hasMore),
  })

export const tiktok: Answers = {
  audience: {
    audienceLocations: list('Countries, the largest share first', {
      country: text('Country', 'Mexico'),
      countryCode: word('Country, two letters', 'MX'),
      count: count('accounts in the sample', 83),
      percentage: word('Share of the sample', '15.96%', 'percent'),
    }),
  },
  'comment-replies': {
    comments: list('Answers', comment),
    cursor: positionNumber(6),
    has_more: more,
    total: count('answers', 36),
  },
  followers: {
    followers: list('Accounts that follow it, the newest first', follower),
    min_time: positionNumber(1_769_860_800),
    has_more: moreFlag,
    total: count('followers', 4_108_517),
  },
  following: {
    followings: list('Accounts that it follows, the newest first', follower),
    min_time: positionNumber(1_769_860_800),
    has_more: moreFlag,
    total: count('accounts that it follows', 81),
  },
  'live-status': {
    is_live: flag('Whether the account is live', true),
    liveRoomUserInfo: object('The account', {
      id: uid,
      secUid,
      uniqueId,
      nickname,
      signature,
      verified: flag('Whether the account is verified', false),
      ...profilePictures,
      roomId: id('the room of the stream'),
      status: number('2 if live, 4 if not', 2),
      followerCount: count('followers', 601_562),
      followingCount: count('accounts that it follows', 1_225),
    }),
    liveRoom: object('The stream', {
      title: text('Title of the stream', 'A walk around the lake'),
      coverUrl: picture('Picture of the stream'),
      startTime: unixTime('When the stream began'),
      status: number('2 if live, 4 if not', 2),
      streamId: id('the stream'),
      liveRoomStats: object('Figures', {
        userCount: count('viewers now', 804),
        enterCount: count('viewers in all', 30_960),
      }),
      streamData: object('Video of the stream', {
        pull_data: object('Links', {
          stream_data: word('Links by quality, as JSON in a text', '{"common":{}}'),
        }),
      }),
    }),
  },
  'popular-creators': {
    creators: list('Creators', {
      tcm_id: id('the creator in the marketplace'),
      user_id: uid,
      nick_name: nickname,
      avatar_url: picture('Picture of the account'),
      country_code: region,
      follower_cnt: count('followers', 431_339),
      liked_cnt: count('likes', 129_772_610),
      tt_link: link('Link to the account', '@example'),
      tcm_link: link('Link to the creator in the marketplace', 'creator/1'),
      items: list('Some videos', {
        item_id: id('the video'),
        tt_link: videoUrl,
        cover_url: picture('Preview picture'),
        vv: count('views', 2_062_831),
        liked_cnt: count('likes', 229_970),
        create_time: unixTime('When the video was published'),
      }),
    }),
    pagination: pagination(false),
  },
  'popular-hashtags': {
    list: list('Hashtags', {
      hashtag_id: id('the hashtag'),
      hashtag_name: text('The hashtag', 'lake'),
      rank: number('Rank, from 1', 1),
      country_info: object('Country', {
        id: region,
        value: word('Name of the country', 'United States'),
      }),
      trend: list('Popularity by day', {
        time: unixTime('The day'),
        value: number('Popularity, from 0 to 1', 0.28),
      }),
      creators: list('Accounts that use it', {
        nick_name: nickname,
        avatar_url: picture('Picture of the account'),
      }),
      is_promoted: flag('Whether it is an advertisement', false),
      publish_cnt: count('videos', 1_554_523),
      video_views: count('views', 3_251_352_710),
    }),
    pagination: pagination(true),
  },
  profile: {
    user: object('The account', {
      id: uid,
      secUid,
      uniqueId,
      nickname,
      signature,
      verified: flag('Whether the account is verified', true),
      privateAccount: flag('Whether the account is private', false),
      ttSeller: flag('Whether the account sells in the shop', false),
      language,
      createTime: unixTime('When the account was created'),
      bioLink: object('Link of the account', { link: link('Where the link leads', 'pictures') }),
      commerceUserInfo: object('Business', {
        commerceUser: flag('Whether it is an account of a business', false),
      }),
      ...profilePictures,
      roomId: id('the room of the stream; empty if not live'),
    }),
    stats: object('Totals', {
      followerCount: count('followers', 4_100_000),
      followingCount: count('accounts that it follows', 74),
      heartCount: count('likes of its videos', 190_400_000),
      heart: count('likes of its videos', 190_400_000),
      videoCount: count('videos', 2_017),
      diggCount: count('videos that it likes', 0),
      friendCount: count('accounts that follow each other', 52),
    }),
    itemList: entries('Videos; empty without an account'),
  },
  'profile-region': {
    handle: text('Name of the account', 'example'),
    profile_url: link('Link to the account', '@example'),
    region,
  },
  'profile-videos': {
    aweme_list: list('Videos', video),
    max_cursor: positionNumber(1_769_860_800_000),
    has_more: more,
  },
  search: {
    search_item_list: list('Videos', {
      aweme_info: object('The video', video),
      search_aweme_info: object('Details of the match; often empty', {}),
    }),
    cursor: positionNumber(12),
  },
  'search-hashtag': { aweme_list: list('Videos', video), cursor: positionNumber(20), has_more: more },
  'search-top': {
    items: list('Videos and posts with pictures', {
      id: id('the video'),
      url: videoUrl,
      desc: text('Text of the video', 'A morning at the lake #lake'),
      content_type: word('video or photo', 'video'),
      create_time: isoTime('When the video was published'),
      region,
      author: object('Who made the video', account),
      statistics,
      video: videoFile,
      images: links('Pictures of a post with pictures', 'picture.jpg'),
    }),
    cursor: positionNumber(30),
  },
  'search-users': {
    users: list('Accounts', { user_info: object('The account', account) }),
    cursor: positionNumber(10),
  },
  'shop-product': {
    product_info: object('The product', {
      product_id: id('the product'),
      seller_id: id('the seller'),
      status: number('1 if it is on sale', 1),
      seller: object('Seller', {
        seller_id: id('the seller'),
        name: text('Name of the shop', 'Example Shoes'),
        avatar: image('Logo of the shop'),
        product_count: count('products', 14),
        seller_location: text('Where the seller is', 'United States of America'),
      }),
      product_base: object('Description', {
        title: text('Name of the product', 'Running shoes'),
        images: list('Pictures', file),
        sold_count: count('items sold', 7_160),
        price: object('Price; digits can be hidden by ?', {
          real_price: word('Price now', '$2?'),
          original_price: word('Price before', '$3?'),
          discount: word('Discount', '-47%', 'percent'),
          currency: word('Currency', 'USD'),
        }),
      }),
      sale_props: list('What can be chosen', {
        prop_id: id('the choice'),
        prop_name: word('Name of the choice', 'Color'),
        sale_prop_values: list('Values', {
          prop_value_id: id('the value'),
          prop_value: word('The value', 'Black'),
        }),
      }),
      skus: list('Variants', {
        sku_id: id('the variant'),
        stock: count('items in stock', 1_824),
        purchase_limit: count('items that one buyer may order', 20),
        sku_sale_props: list('Values of the variant', {
          prop_name: word('Name of the choice', 'Color'),
          prop_value: word('The value', 'Black'),
        }),
        price: object('Price', {
          real_price: object('Price now', {
            price_str: word('The price', '$2?'),
            currency: word('Currency', 'USD'),
          }),
          original_price: word('Price before', '$3?'),
          discount: word('Discount', '-47%', 'percent'),
        }),
      }),
      product_detail_review: object('Reviews', {
        product_rating: number('Stars, from 1 to 5', 4.3),
        review_count: count('reviews', 595),
        review_items: list('Some reviews', {
          sku_specification: word('Variant', 'Item: Blue'),
          review: object('The review', {
            review_id: id('the review'),
            rating: number('Stars, from 1 to 5', 5),
            display_text: text('Text of the review', 'They fit well'),
            review_timestamp: word('When it was written', '1769860800000', 'milliseconds since 1970'),
          }),
          review_user: object('Who wrote it', { name: text('Name of the buyer', 'E**e') }),
        }),
      }),
    }),
    shop_info: object('The shop', shop),
    categories: list('Categories, the widest first', {
      category_id: id('the category', '600001'),
      parent_id: id('the wider category', '0'),
      level: number('Distance from the widest category, from 1', 1),
      is_leaf: flag('Whether there is no narrower one', false),
      category_name: word('Name of the category', 'Shoes'),
      name_key: word('Name of the category, for translation', 'magellan_600001'),
    }),
    sale_region: region,
    shop_performance: list('How the shop compares', {
      type: number('Number of what is compared', 1),
      score_percentile: number('Share of shops with a lower score', 98, 'percent'),
    }),
    related_videos: list('Videos about the product', {
      item_id: id('the video'),
      url: videoUrl,
      title: text('Text of the video', 'My new shoes'),
      author_id: uid,
      author_name: nickname,
      author_url: link('Link to the account', '@example'),
      play_count: count('plays', 324_944),
      like_count: count('likes', 1_812),
      duration: milliseconds('Length', 57_900),
      width: pixels('Width', 1_080),
      height: pixels('Height', 1_920),
      upload_time: word('When the video was published', '1769860800', 'seconds since 1970'),
      cover_image_url: picture('Preview picture'),
      content_url: media('Link to the file'),
    }),
  },
  'shop-product-reviews': {
    product_reviews: list('Reviews', {
      review_id: id('the review'),
      product_id: id('the product'),
      product_name: text('Name of the product', 'Running shoes'),
      sku_id: id('the variant'),
      sku_specification: word('Variant', 'Black'),
      reviewer_id: id('the buyer'),
      reviewer_name: text('Name of the buyer, partly hidden', 'E**e'),
      reviewer_avatar_url: picture('Picture of the buyer'),
      review_rating: number('Stars, from 1 to 5', 4),
      review_text: text('Text of the review', 'They fit well'),
      review_time: word('When it was written', '1769860800000', 'milliseconds since 1970'),
      review_country: region,
      review_images: links('Pictures of the buyer', 'picture.jpg'),
      is_verified_purchase: flag('Whether the buyer bought it here', true),
      is_incentivized_review: flag('Whether the buyer got something for it', false),
    }),
    total_reviews: countText('reviews', '5967'),
    review_ratings: object('How the stars are spread', {
      review_count: countText('reviews', '5967'),
      overall_score: number('Stars, from 1 to 5', 4.4),
      rating_result: object('Reviews by stars', {
        1: countText('reviews with 1 star', '475'),
        2: countText('reviews with 2 stars', '161'),
        3: countText('reviews with 3 stars', '289'),
        4: countText('reviews with 4 stars', '740'),
        5: countText('reviews with 5 stars', '4302'),
      }),
    }),
    has_more: moreFlag,
  },
  'shop-products': {
    shopInfo: object('The shop', shop),
    products: list('Products', product),
    cursor: position('WzExMzg1LCJleGFtcGxlIl0='),
    has_more: moreFlag,
  },
  'shop-search': {
    products: list('Products', product),
    total_products: count('matches', 100),
    query: word('The words', 'shoes'),
  },
  'shop-showcase': { products: list('Products', product), cursor: position('eyJwcm9kdWN0IjoiZXhhbXBsZSJ9') },
  song: {
    music_info: object('The sound', {
      ...song,
      artists: list('Artists', {
        uid,
        sec_uid: secUid,
        handle: uniqueId,
        nick_name: nickname,
        is_verified: flag('Whether the account is verified', false),
      }),
      create_time: unixTime('When the sound was published'),
      share_info: object('For sharing', { share_url: link('Link to the sound', 'music/example-1') }),
    }),
    similar_music: entries('Similar sounds'),
    similar_music_ids: mixed('Ids of similar sounds, or null', null),
  },
  'song-videos': { aweme_list: list('Videos', soundVideo), cursor: positionNumber(12), has_more: more },
  trending: { aweme_list: list('Videos', video) },
  video: {
    aweme_detail: object('The video', video),
    transcript: text('Captions in the form WebVTT, with `get_transcript`', webVtt),
  },
  'video-comments': {
    comments: list('Comments', { ...comment, reply_comment_total: count('answers', 9) }),
    cursor: positionNumber(20),
    has_more: more,
    total: count('comments', 269),
  },
  'video-transcript': {
    id: id('the video'),
    url: videoUrl,
    transcript: text('Captions in the form WebVTT', webVtt),
  },
}
